// Checks what "mailroom audit export FILE" or "mailroom audit prove" wrote: node verify-bundle.mjs FILE [SEALS]
// SEALS are seals that were kept elsewhere, one a line. docs/audit.md says what is hashed.
import { createHash } from "node:crypto";
import { createReadStream, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const sha = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();
const tag = (byte) => Buffer.from([byte]), hex = (text) => Buffer.from(text, "hex");
const fail = (text) => { console.log(`NOT WHOLE: ${text}`); process.exit(1); };
const leafOf = (message) => {
  if (message.leaf) return hex(message.leaf); // erased: the commitment alone is left
  const parts = [message.stream, String(message.seq), message.time, message.subject].map((text) => Buffer.from(text));
  parts.push(Buffer.from(message.headers, "base64"), Buffer.from(message.body, "base64"));
  const lengths = Buffer.alloc(24);
  parts.forEach((part, at) => lengths.writeUInt32BE(part.length, 4 * at));
  return sha(tag(0), lengths, ...parts);
};
const rootOf = (level) => {
  if (!level.length) return sha();
  while (level.length > 1) level = level.flatMap((left, at) => at % 2 ? [] : [at + 1 < level.length ? sha(tag(1), left, level[at + 1]) : left]);
  return level[0];
};
const place = (seal) => `${seal.stream} ${seal.number} ${seal.first} ${seal.last} ${seal.count}`;
const before = {}, covered = {}, leaves = {}, lost = [], counts = { messages: 0, erased: 0, seals: 0 };
const kept = process.argv[3] ? readFileSync(process.argv[3], "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line)) : [];
for await (const line of createInterface({ input: createReadStream(process.argv[2]) })) {
  const { seal, path, void: isVoid, ...message } = JSON.parse(line);
  if (message.stream) (leaves[message.stream] ??= []).push(leafOf(message)), counts[message.leaf ? "erased" : "messages"]++;
  if (!seal) continue;
  const last = before[seal.stream] ?? { number: 0, last: 0, chain: "00".repeat(32) };
  const saysLoss = !path && seal.first <= last.last && seal.last < last.last; // the stream lost its end: a seal of what is left
  const follows = seal.number === last.number + 1 && (saysLoss || seal.first === last.last + 1);
  if (!path && !(follows && sha(tag(2), hex(last.chain), hex(seal.root), place(seal)).toString("hex") === seal.chain)) fail(`seal ${place(seal)} does not follow`);
  if (kept.some((other) => place(other) === place(seal) ? other.chain !== seal.chain : other.stream === seal.stream && other.number === seal.number)) fail(`seal ${place(seal)} is not the one kept elsewhere`);
  if (saysLoss) lost.push(`${seal.stream} ${seal.last + 1} to ${last.last}, as seal ${seal.number} says`);
  before[seal.stream] = seal, counts.seals++;
  if (isVoid) continue; // one that says a loss has to come, and stands for what is left of it
  const own = leaves[seal.stream]?.splice(0) ?? [];
  const root = path ? path.reduce((hash, { side, hash: next }) => side === "left" ? sha(tag(1), hex(next), hash) : sha(tag(1), hash, hex(next)), own[0]) : rootOf(own);
  if (root.toString("hex") !== seal.root || !(path || (own.length === seal.count && seal.first === (covered[seal.stream] ?? 0) + 1))) fail(`seal ${place(seal)} is not of these messages`);
  if (path) console.log(`PROVEN: ${message.stream} ${message.seq} is in the seal ${place(seal)}, chain ${seal.chain}`), process.exit(0);
  covered[seal.stream] = seal.last;
}
for (const [stream, seal] of Object.entries(before)) if (covered[stream] !== seal.last) fail(`seal ${place(seal)} has no messages`);
if (lost.length) fail(`lost: ${lost.join("; ")}`);
for (const one of kept) if ((before[one.stream]?.number ?? 0) < one.number) fail(`seal ${place(one)} is missing`);
console.log(`WHOLE: ${counts.messages} messages, ${counts.erased} erased, ${counts.seals} seals`);

// What a person does with a node: gives it to the team or takes it back, or has it forgotten, for which what
// that erases is said first, and a word is typed.

import { at, get, post } from "../api.js";
import { isMine, may, person } from "../store.js";
import { Button } from "../ui/button.js";
import { ask } from "../ui/dialog.js";
import { plural } from "../ui/format.js";
import { html } from "../ui/html.js";
import { attempt, toast } from "../ui/toast.js";

const PAUSE = 500; // ms between two looks at how far it is
const SHOWN = 5; // titles of what goes with it

/** For what one said oneself, where there are several people. */
export function ShareButton({ node, onDone }) {
  const own = isMine(node);
  const me = person.value?.audience;
  if (!may("submit") || !me || node.retired_version || !(own || (node.metadata?.person === me && !node.source.channel.startsWith("private:")))) return null;
  const change = { nodes: [{ ...node, updated_at: "" }], insist: true, audience: own ? "team" : "me" };
  const share = async () => {
    const written = await attempt(() => post("/memory/write", change));
    if (written?.error) toast(written.error, "failed");
    else if (written) toast(own ? "It is the team’s" : "It is yours alone; what was read stays known");
    onDone?.();
  };
  return html`<${Button} title=${own ? "It is yours alone" : "The team sees it"} onClick=${share}>${own ? "Share with the team" : "Keep to myself"}<//>`;
}

export function ForgetButton({ node, onDone }) {
  if (!(may("admin") || (may("submit") && isMine(node))) || node.title === "[forgotten]") return null;
  return html`<${Button} kind="danger" title="Erase its text for good" onClick=${() => forget(node, onDone)}>Forget …<//>`;
}

async function forget(node, onDone) {
  const path = at`/memory/nodes/${node.id}/forgetting`;
  const plan = await attempt(() => get(path));
  if (!plan) return;
  const yes = await ask({ title: "Forget this for good?", text: describe(plan), yes: "Forget", danger: true, word: "forget" });
  if (!yes) return;
  const ordered = await attempt(() => post(path, { nodes: plan.nodes.map(({ id }) => id) }), "Nothing finds it any more; its text is being erased");
  if (!ordered) return;
  onDone?.();
  watch(onDone);
}

function describe({ nodes, sharing, messages, away, short }) {
  const [first, ...more] = nodes;
  const total = Object.values(messages).reduce((sum, number) => sum + number, 0);
  const kinds = Object.entries(messages).map(([kind, number]) => `${number} ${kind}`).join(", ");
  const title = (node) => html`<li key=${node.id}>${node.title}</li>`;
  return html`<span>“${first.title}” is erased from memory and from its log. Nothing here brings it back.</span>
    ${more.length > 0 && html`<span>With it ${more.length === 1 ? "goes" : "go"} ${plural(more.length, "node")} that it was merged with, or that would change it:</span><ul>${more.slice(0, SHOWN).map(title)}</ul>`}
    ${sharing.length > 0 && html`<span> ${plural(sharing.length, "other node")} with the same text ${sharing.length === 1 ? "loses" : "lose"} it too.</span>`}
    ${total > 0 && html`<span> ${plural(total, "message")} of the office ${total === 1 ? "quotes" : "quote"} it and ${total === 1 ? "loses" : "lose"} it too (${kinds}), and so do files of the office’s folder.</span>`}
    ${away.map((text) => html`<span> Not counted, and erased once it can be read: ${text}.</span>`)}
    ${short.length > 0 && html`<span> Too short to be looked for elsewhere: ${short.map((text) => `“${text}”`).join(", ")}.</span>`}
    <span> What left the office, workspaces, backups and what models were sent keep it.</span>`;
}

/** Say when it is done, or why it waits. */
async function watch(onDone, last = "") {
  const progress = await get("/memory/forgetting").catch(() => null);
  if (progress?.problem && progress.problem !== last) toast(`Not erased yet: ${progress.problem}. ${progress.under_way ? "It is tried again." : ""}`, "failed");
  if (!progress || progress.under_way) return setTimeout(() => watch(onDone, progress?.problem || last), PAUSE);
  if (progress.problem) return onDone?.();
  toast("Forgotten: its text is erased");
  onDone?.();
}

// Models: which each agent asks, which kinds of text may leave for them, what left today; what was sent for a goal.

import { at, get } from "../api.js";
import { AgentChip } from "../ui/agent.js";
import { Empty, Loading, Problem } from "../ui/empty.js";
import { count, dollars, plural, span } from "../ui/format.js";
import { html, useState } from "../ui/html.js";
import { useLiveResource, useResource } from "../ui/resource.js";

const KINDS = { private: "private notes", mail: "mail", files: "files", repository: "repositories", memory: "memory", web: "web" };
const OFTEN = 5000; // ms: sums of a day need not follow every message

export default function Models({ params }) {
  return params.id ? html`<${Sent} name=${params.id} />` : html`<${Overview} />`;
}

function Overview() {
  const models = useLiveResource((signal) => get("/models", {}, { signal }), [], ({ message }) => message.type === "result", OFTEN);
  if (!models.data) return html`<h1>Models</h1>${models.error ? html`<${Problem} error=${models.error} retry=${models.reload} />` : html`<${Loading} what="models" />`}`;
  const { agents } = models.data;
  const rows = agents.flatMap(rowsOf);
  return html`<h1>${rows.some((row) => row.use && !row.use.is_local) ? "What leaves for models" : "Nothing leaves your network"}</h1>
    <p class="soft">Each kind of text that an agent's model may have; the setting <code>leaves</code> says which. Secrets are always masked. What a goal sent stands on its page, and <code>mailroom show GOAL --sent</code> prints it.</p>
    ${rows.length ? html`<div class="scrolls" tabindex="0" role="region" aria-label="Models of agents"><table class="models"><thead><tr><th>agent</th><th>model</th><th>at</th>${Object.values(KINDS).map((kind) => html`<th class="kind">${kind}</th>`)}<th>today (UTC)</th></tr></thead>
      <tbody>${rows.map((row, index) => html`<${Row} key=${index} row=${row} />`)}</tbody></table></div>`
      : html`<${Empty} title="No agent has begun with a model">Set <code>MAILROOM_BRAIN</code>; docs/models.md says how.<//>`}`;
}

/** A row for each model of an agent, and for each that it asked today and no longer has. */
function rowsOf({ agent, local_only, models, today }) {
  const sum = (use) => today.find((each) => each.model === use.name && each.place === use.place);
  const before = today.filter((each) => !models.some((use) => sum(use) === each));
  return [
    ...models.map((use) => ({ agent, local_only, use, sum: sum(use), model: use.name, place: use.place })),
    ...before.map((each) => ({ agent, local_only, use: null, sum: each, model: each.model, place: each.place })),
  ];
}

function Row({ row }) {
  const { agent, local_only, use, sum, model, place } = row;
  return html`<tr><td><${AgentChip} name=${agent} />${local_only && html` <span class="soft">local models alone</span>`}</td>
    <td class="mono">${model}${use && use.role !== "reasons" && html` <span class="soft">${use.role}</span>`}</td><td class="mono">${place}${use?.is_local && html` <span class="soft">local</span>`}</td>
    ${Object.keys(KINDS).map((kind) => html`<td class="kind">${!use ? "" : use.kinds.includes(kind) ? html`<span class="ok"><span aria-hidden="true">✓</span><span class="visually-hidden">may go</span></span>` : html`<span class="soft"><span aria-hidden="true">–</span><span class="visually-hidden">stays</span></span>`}</td>`)}
    <td>${sum ? format(sum) : html`<span class="soft">nothing</span>`}</td></tr>`;
}

function format(sum) {
  const withheld = Object.entries(sum.withheld).map(([kind, size]) => `${count(size)} characters of ${KINDS[kind] || kind} withheld`);
  return [
    plural(sum.requests, "request"), sum.failed && `${count(sum.failed)} failed`, `${count(sum.input_tokens)} tokens in, ${count(sum.output_tokens)} out`,
    sum.cost && dollars(sum.cost), sum.masked && `${plural(sum.masked, "secret")} masked`, ...withheld,
  ].filter(Boolean).join(" · ");
}

function Sent({ name }) {
  const sent = useResource((signal) => get(at`/sent/${name}`, {}, { signal }), [name]);
  if (!sent.data) return html`<h1>What was sent</h1>${sent.error ? html`<${Problem} error=${sent.error} retry=${sent.reload} />` : html`<${Loading} what="requests" />`}`;
  const { requests, texts, ends } = sent.data;
  if (!requests.length) return html`<h1>What was sent</h1><${Empty} title="Nothing was sent">No model was asked for it, or what was sent is no longer kept.<//>`;
  const seen = new Map();
  const rows = requests.map((request) => {
    const known = seen.get(`${request.agent} ${request.task_id}`) || new Set();
    const fresh = (request.messages || []).filter((id) => !known.has(id));
    seen.set(`${request.agent} ${request.task_id}`, new Set([...known, ...fresh]));
    return { request, end: ends[request.id], fresh };
  });
  return html`<h1>${plural(requests.length, "request")} to models</h1><p class="soft">As they were sent: with masks for secrets, and without what may not go. Of each request only what the one before did not have.</p>
    <ol class="sent">${rows.map((row) => html`<${Request} key=${row.request.id} ...${row} texts=${texts} />`)}</ol>`;
}

function Request({ request, end, fresh, texts }) {
  const [open, setOpen] = useState(false);
  const facts = [
    end ? end.failed || `${count(end.input_tokens)} tokens in, ${count(end.output_tokens)} out, ${span(end.seconds || 0)}` : "it has not ended",
    (request.kinds || []).length && `kinds: ${request.kinds.map((kind) => KINDS[kind] || kind).join(", ")}`,
    ...Object.entries(request.withheld || {}).map(([kind, size]) => `${count(size)} characters of ${KINDS[kind] || kind} withheld`),
    request.masked && `${plural(request.masked, "secret")} masked`,
  ].filter(Boolean);
  return html`<li><div class="line"><${AgentChip} name=${request.agent} /><span class="mono">${request.model}</span><span>at <b class="mono">${request.place}</b>${request.is_local && " (local)"}</span></div>
    <div class="soft">${facts.join(" · ")}</div>
    <button type="button" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>${open ? "Hide" : `Show ${plural(fresh.length, "new message")}`}</button>
    ${open && fresh.map((id) => html`<${Text} key=${id} text=${texts[id]} />`)}</li>`;
}

function Text({ text }) {
  if (!text) return html`<p class="soft">A text that is no longer kept.</p>`;
  const calls = (text.calls || []).map((call) => `calls ${call.name} ${call.arguments}`);
  return html`<h3>${text.role}</h3><pre>${text.left_out ? `(${count(text.left_out)} characters, not kept: the record of the task is full)` : [text.text, ...calls].filter(Boolean).join("\n")}</pre>`;
}

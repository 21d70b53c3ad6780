// All that is on record of one row of the timeline: parameters, thoughts, output, attempts, effects, connections, result.

import { at, get } from "../../api.js";
import { AgentChip } from "../../ui/agent.js";
import { Loading, Problem } from "../../ui/empty.js";
import { bytes, count, dollars } from "../../ui/format.js";
import { html } from "../../ui/html.js";
import { Inspector } from "../../ui/inspector.js";
import { KeyValue } from "../../ui/keyvalue.js";
import { Outcome } from "../../ui/outcome.js";
import { useResource } from "../../ui/resource.js";
import { Clock } from "../../ui/time.js";
import { Ref } from "./ref.js";
import { nameOf, took } from "./waterfall.js";

const KINDS = {
  task: "task", attempt: "attempt", model: "model call", action: "action", command: "command in the jail", memory: "memory query",
  effect: "effect outside the office", waiting: "waiting for a free process", approval: "waiting for a person", conductor: "the conductor's work", more: "several steps",
};
const GIVEN = { model: "Asked (its end)", memory: "Asked", command: "Command", action: "Parameters" };
const CAME = { model: "Thought", memory: "Brought", command: "Output", action: "Output" };
const STATUSES = { done: "completed", granted: "completed", refused: "failed", killed: "failed" };

export function RowDetails({ goal, id, select, onClose }) {
  const brief = goal.rows.find((row) => row.id === id);
  const taskId = brief?.task_id || "";
  const last = goal.rows.reduce((seq, row) => (row.task_id === taskId ? Math.max(seq, row.seq || 0) : seq), 0);
  const task = useResource((signal) => (taskId ? get(at`/tasks/${taskId}`, {}, { signal }) : Promise.resolve(null)), [taskId, last]);
  if (!brief) return html`<${Inspector} title="Nothing here" onClose=${onClose}><p>This goal has no such row${goal.state === "ended" ? "" : " yet"}.</p><//>`;
  const details = task.data?.details;
  const full = details?.rows.find((row) => row.id === id);
  const from = Date.parse(brief.start);
  const row = { ...brief, input: full?.input ?? brief.input, output: full?.output ?? "", from, to: brief.end ? Date.parse(brief.end) : Date.now() };
  const title = html`<${AgentChip} name=${row.agent} /> ${nameOf(row)}`;
  return html`<${Inspector} title=${title} onClose=${onClose}><${Facts} goal=${goal} row=${row} select=${select} />
    ${task.error && html`<div><${Problem} error=${task.error} retry=${task.reload} /></div>`}
    ${taskId && !details && !task.error && html`<div><${Loading} what="the details" /></div>`}
    ${row.kind !== "task" && html`<${Texts} row=${row} />`}
    ${row.kind === "task" && details && html`<${TaskParts} details=${details} select=${select} />`}<//>`;
}

function Facts({ goal, row, select }) {
  const start = Date.parse(goal.submitted_at);
  const tokens = (row.input_tokens || 0) + (row.output_tokens || 0);
  return html`<${KeyValue} pairs=${[
    ["What", KINDS[row.kind] || row.kind],
    ["Came to", html`<${Outcome} status=${STATUSES[row.status] || row.status} outcome=${row.status} waits=${row.status === "waiting" && row.kind === "approval"} />`],
    ["Began", html`+${Math.max(0, (row.from - start) / 1000).toFixed(3)} s · <${Clock} at=${row.start} />`],
    ["Took", took(row)],
    ["Attempt", row.attempt ? html`${row.attempt}${row.worker && html`, process <code>${row.worker}</code>`}` : ""],
    ["Model", row.kind === "model" ? html`<code>${row.name}</code>` : ""],
    ["Instead of", row.instead_of ? html`<code>${row.instead_of}</code>, which could not answer` : ""],
    ["Tokens", tokens ? (row.kind === "task" ? count(tokens) : `${count(row.input_tokens)} in${row.cached_tokens ? ` (${count(row.cached_tokens)} cached)` : ""}, ${count(row.output_tokens)} out`) : ""],
    ["Cost", row.cost ? dollars(row.cost) : ""],
    ["Note", row.kind === "task" && row.end ? "" : row.note],
    ["Message", row.seq ? html`<button type="button" class="evidence" onClick=${() => select({ message: `${row.stream}-${row.seq}` })}>#${count(row.seq)}</button>` : ""],
    ["Link", html`<a href=${`?row=${encodeURIComponent(row.id)}`}>to this row</a>`],
  ]} />`;
}

function Texts({ row }) {
  const given = row.kind === "action" ? parameters(row.input) : null;
  return html`${given ? html`<${Section} title="Parameters"><${KeyValue} pairs=${given} /><//>` : html`<${Block} title=${GIVEN[row.kind]} text=${row.input} />`}
    <${Block} title=${CAME[row.kind] || "Output"} text=${row.output} bad=${row.status === "failed"} />`;
}

function parameters(text) {
  try {
    const values = JSON.parse(text);
    if (typeof values !== "object" || values === null || Array.isArray(values)) return null;
    return Object.entries(values).map(([name, value]) => [name, html`<span class="pre">${typeof value === "string" ? value : JSON.stringify(value, null, 1)}</span>`]);
  } catch {
    return null;
  }
}

function Section({ title, children }) {
  return html`<section><h3>${title}</h3>${children}</section>`;
}

function Block({ title, text, bad = false }) {
  if (!text) return null;
  return html`<section class="block"><h3>${title || "Text"}</h3><pre tabindex="0" aria-label=${title} class=${bad ? "bad" : ""}>${text}</pre></section>`;
}

function TaskParts({ details, select }) {
  const { task, result, effects, connections, judged, rows } = details;
  const given = task?.context?.params;
  const open = (ref) => select({ evidence: ref });
  const thoughts = rows.filter((row) => row.kind === "model" && row.output);
  const brought = rows.filter((row) => row.kind === "memory" && row.output);
  return html`<${Block} title="Asked" text=${task?.text} />
    ${given && Object.keys(given).length > 0 && html`<${Section} title=${`Action ${task.context.action || ""}`}><${KeyValue} pairs=${parameters(JSON.stringify(given))} /><//>`}
    ${result && html`<${Block} title=${result.error_message ? "Why it ended" : "Result"} text=${result.error_message || result.output} bad=${Boolean(result.error_message)} />`}
    ${result && (result.evidence_refs.length > 0 || result.output_paths.length > 0) && html`<${Section} title="Evidence"><div class="refs">${[...result.evidence_refs, ...result.output_paths].slice(0, 60).map((each) => html`<${Ref} key=${each} name=${each} onOpen=${open} /> `)}</div><//>`}
    ${thoughts.length > 0 && html`<${Section} title="Thoughts"><ol class="thoughts">${thoughts.slice(0, 50).map((row) => html`<li key=${row.id}><button type="button" class="plain" onClick=${() => select({ row: row.id })}>${row.output.slice(0, 240)}</button></li>`)}</ol><//>`}
    ${brought.length > 0 && html`<${Section} title="What memory brought"><ul class="plainlist">${brought.slice(0, 20).map((row) => html`<li key=${row.id}><button type="button" class="plain" onClick=${() => select({ row: row.id })}>${row.name}: ${row.output.split("\n")[0].slice(0, 100)}</button></li>`)}</ul><//>`}
    ${effects.length > 0 && html`<${Section} title="Effects"><ul class="plainlist">${effects.slice(0, 50).map((each, index) => html`<li key=${index}>${each.finished_at || result ? "✓" : "◐"} ${each.what}</li>`)}</ul><//>`}
    ${judged.length > 0 && html`<${Section} title="Held by the policy"><ul class="plainlist">${judged.map((each, index) => html`<li key=${index}>${each.verdict} (${each.rule}): <code>${each.command}</code></li>`)}</ul><//>`}
    ${connections.length > 0 && html`<${Section} title="Connections"><ul class="plainlist">${connections.flatMap((each) => each.connections).slice(0, 50).map((each, index) => html`<li key=${index} class=${each.allowed ? "" : "bad"}>${each.allowed ? "✓" : "✕"} ${each.host}:${each.port} ${each.allowed ? `${bytes(each.received)} in, ${bytes(each.sent)} out` : each.why}</li>`)}</ul><//>`}`;
}

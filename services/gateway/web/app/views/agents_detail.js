// One agent: what it does, its processes and mailbox, what it may publish and read, and what a person can have it do.

import { at, post } from "../api.js";
import { useKeys } from "../keyboard.js";
import { may } from "../store.js";
import { AgentChip } from "../ui/agent.js";
import { Button } from "../ui/button.js";
import { ask } from "../ui/dialog.js";
import { costOf, count, plural, span } from "../ui/format.js";
import { html } from "../ui/html.js";
import { Inspector } from "../ui/inspector.js";
import { KeyValue } from "../ui/keyvalue.js";
import { Ago } from "../ui/time.js";
import { attempt } from "../ui/toast.js";
import { State } from "./agents_row.js";

const RIGHTS = [
  ["publish", "May publish"],
  ["read", "May read"],
  ["ask", "May ask"],
  ["serve", "Answers"],
];

async function control(agent, verb, onChange) {
  const texts = {
    pause: [`Pause ${agent.name}?`, "It finishes what it works on and takes no new tasks, also after a restart. What is sent to it waits in its mailbox.", "Pause"],
    resume: [`Have ${agent.name} go on?`, "It takes tasks again, those that waited first.", "Resume"],
    restart: [`Restart ${agent.name}?`, `Its ${plural(agent.processes.length, "process", "processes")} end and start again. What they work on is taken over and goes on.`, "Restart"],
  };
  const [title, text, yes] = texts[verb];
  if (!(await ask({ title, text, yes, danger: verb === "restart" }))) return;
  const done = { pause: `${agent.name} is paused`, resume: `${agent.name} goes on`, restart: `${agent.name} restarts` }[verb];
  await attempt(() => post(at`/agents/${agent.name}/${verb}`), done);
  await onChange();
}

async function write(agent) {
  const body = await ask({ title: `Letter to ${agent.name}`, text: "It answers by mail; the answer appears in the traffic and in your mailbox.", field: "Letter", yes: "Send" });
  if (body) await attempt(() => post("/mail", { to: agent.name, body }), "Sent");
}

export function Detail({ agent, velocity, onClose, onChange }) {
  const isPaused = agent.state === "paused";
  const canPause = may("admin") && !agent.why_not_paused;
  const canRestart = may("admin") && agent.processes.length > 0;
  const canWrite = may("submit") && agent.processes.length > 0 && !["gateway", "memory"].includes(agent.name);
  const pause = () => control(agent, isPaused ? "resume" : "pause", onChange);
  const restart = () => control(agent, "restart", onChange);
  const keys = {};
  if (canWrite) keys.w = { label: "write a letter", run: () => write(agent) };
  if (canPause) keys.z = { label: isPaused ? "resume" : "pause the agent", run: pause };
  if (canRestart) keys.R = { label: "restart the agent", run: restart };
  useKeys(keys);
  return html`<${Inspector} title=${html`<${AgentChip} name=${agent.name} /> <${State} agent=${agent} />`} onClose=${onClose} label="Agent">
    <div><p>${agent.description || "It does not run, so what it does is not known."}</p><div class="actions">
      ${canWrite && html`<${Button} keys="w" kind="primary" onClick=${() => write(agent)}>Write<//>`}
      ${canPause && html`<${Button} keys="z" onClick=${pause}>${isPaused ? "Resume" : "Pause"}<//>`}
      ${canRestart && html`<${Button} keys="R" kind="danger" onClick=${restart}>Restart<//>`}</div>
      ${may("admin") && agent.why_not_paused && html`<p class="soft small">${agent.why_not_paused}</p>`}</div>
    <${KeyValue} pairs=${[
      ["Load", `${agent.load} of ${plural(agent.concurrency, "slot")}`],
      ["Mailbox", html`<${Lanes} agent=${agent} />`],
      ["Tasks", velocity ? `${count(velocity.tasks)} in 30 days, half within ${span(velocity.p50)}, 95% within ${span(velocity.p95)}` : "none completed in 30 days"],
      ["Handled", agent.processes.length > 0 && `${count(agent.handled)} messages${agent.failed ? `, ${count(agent.failed)} failed` : ""} since it started`],
      ["Today", agent.calls_today ? `${count(agent.tokens_today)} tokens in ${plural(agent.calls_today, "call")}, ${costOf(agent.cost_today, agent.tokens_today)}` : "no model calls"],
      ["Version", html`<span class="mono">${agent.version}</span>`],
      ["Changed", agent.changed_by && html`${{ pause: "paused", resume: "resumed", restart: "restarted" }[agent.last_control] || agent.last_control} by ${agent.changed_by}, <${Ago} at=${agent.changed_at} />`],
      ["Memory", html`<a href=${`/memory?tab=briefing&agent=${encodeURIComponent(agent.name)}`}>what it is told: its briefing</a>`],
      ["Traffic", html`<a href=${`/traffic?agent=${encodeURIComponent(agent.name)}`}>its messages</a>`],
      ["Goals", html`<a href=${`/goals?agent=${encodeURIComponent(agent.name)}`}>goals it works on</a>`],
    ]} />
    <${Processes} agent=${agent} /><${Abilities} agent=${agent} />
    ${RIGHTS.map(([name, title]) => agent.rights[name].length > 0 && html`<details class="fold" key=${name}><summary>${title} <span class="faint">${agent.rights[name].length}</span></summary
      ><ul class="subjects">${agent.rights[name].map((subject) => html`<li><code>${subject}</code></li>`)}</ul></details>`)}<//>`;
}

function Lanes({ agent }) {
  if (!agent.lanes.length) return "none: it takes no messages";
  return html`<span class="lanes">${agent.lanes.map(
    (lane) => html`<span key=${lane.lane} class=${lane.waiting ? "" : "faint"}>${lane.lane} <b>${count(lane.waiting)}</b>${lane.in_hand > 0 && ` (${lane.in_hand} in hand)`}</span>`,
  )}</span>`;
}

function Processes({ agent }) {
  if (!agent.processes.length) return null;
  return html`<details class="fold" open=${agent.processes.length < 4}><summary>${plural(agent.processes.length, "process", "processes")}</summary><ul class="subjects">${agent.processes.map(
    (each) => html`<li key=${each.instance}><span class="mono">${each.pid}</span> on ${each.host}, since <${Ago} at=${each.started_at} />, ${each.load} of ${each.concurrency} busy</li>`,
  )}</ul></details>`;
}

function Abilities({ agent }) {
  const actions = Object.entries(agent.actions);
  if (!actions.length) return null;
  return html`<details class="fold"><summary>Can do <span class="faint">${actions.length}</span></summary><ul class="subjects">${actions.map(
    ([name, text]) => html`<li key=${name}><code>${name}</code> ${text}</li>`,
  )}</ul></details>`;
}

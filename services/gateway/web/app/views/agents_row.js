// One agent in the list: state, load, mailbox by lane, how long its tasks take, what it spent today, its version.

import { at } from "../api.js";
import { AgentChip, agentColour } from "../ui/agent.js";
import { count, dollars, plural, span } from "../ui/format.js";
import { html } from "../ui/html.js";
import { Bar } from "../ui/bar.js";

const STATES = {
  running: ["●", "running", "ok"],
  paused: ["‖", "paused", "wait"],
  stopped: ["✕", "not running", "bad"],
  "not responding": ["✕", "not responding", "bad"],
  starting: ["◐", "starting", "warn"],
  "starting again": ["◐", "starting again", "warn"],
};

export function State({ agent }) {
  const idle = agent.state === "running" && !agent.load;
  const [symbol, word, kind] = STATES[agent.state] || ["○", agent.state, ""];
  return html`<span class=${`state ${kind}`}><span aria-hidden="true">${symbol}</span> ${agent.state === "running" ? (idle ? "idle" : "busy") : word}</span>`;
}

export function AgentRow({ agent, velocity, chosen }) {
  const load = `${agent.load} of ${plural(agent.concurrency, "slot")} taken`;
  return html`<div role="listitem"><a class=${`agent-row${chosen ? " selected" : ""}`} href=${at`/agents/${agent.name}`} aria-current=${chosen ? "true" : undefined}>
    <span class="name"><${AgentChip} name=${agent.name} /></span><${State} agent=${agent} />
    <span class="load" title=${load}>${agent.concurrency > 0 && html`<${Bar} value=${agent.load} most=${agent.concurrency} label=${load} colour=${agentColour(agent.name)} /><span class="mono">${agent.load}/${agent.concurrency}</span>`}</span>
    <span class="does"><${Elsewhere} agent=${agent} />${agent.description.split(/[.;:] |\.$| - /)[0]}</span><span class="waits">${waitsText(agent)}</span>
    <span class="took">${velocity ? html`<b>${span(velocity.p50)}</b>` : html`<span class="faint" title="no task yet">–</span>`}</span>
    <span class="cost">${agent.cost_today ? html`<b>${dollars(agent.cost_today)}</b>` : agent.tokens_today ? html`<b>${count(agent.tokens_today)}</b> <span class="faint">tokens</span>` : html`<span class="faint" title="no model was asked">–</span>`}</span>
    </a></div>`;
}

/** The hosts that joined on which it runs. */
function Elsewhere({ agent }) {
  const hosts = [...new Set(agent.processes.filter((each) => each.instance.includes("-")).map((each) => each.host))];
  return hosts.length > 0 && html`<span class="faint">on ${hosts.sort().join(", ")}: </span>`;
}

/** What waits, by lane: "3 waiting: 2 high, 1 mail". */
function waitsText(agent) {
  const lanes = agent.lanes.filter((lane) => lane.waiting > 0);
  if (!lanes.length) return html`<span class="faint">mailbox empty</span>`;
  return html`<b>${count(agent.waiting)}</b> waiting <span class="faint">${lanes.map((lane) => `${lane.lane} ${count(lane.waiting)}`).join(", ")}</span>`;
}

// Agents: who is at work, what waits for each, what it costs today; pause, resume, restart, write to it; what it may do.

import { at, get } from "../api.js";
import { useKeys } from "../keyboard.js";
import { paused } from "../live.js";
import { navigate } from "../router.js";
import { Empty, Loading, Problem } from "../ui/empty.js";
import { plural } from "../ui/format.js";
import { html, useEffect } from "../ui/html.js";
import { useLiveResource, useResource } from "../ui/resource.js";
import { Detail } from "./agents_detail.js";
import { AgentRow } from "./agents_row.js";

const AGAIN = 3000; // ms after which loads are read again: they are no messages of the log

// The page is rebuilt for each agent; what was read last is shown until it is read again.
const before = { list: null, kpi: null };

export default function Agents({ params }) {
  const list = useLiveResource((signal) => get("/agents", {}, { signal }), [], ({ message }) => /^(task|record\.[^.]+\.control|control)\b/.test(message.subject), 1000);
  const kpi = useResource((signal) => get("/kpi", {}, { signal }), []);
  const limits = useResource((signal) => get("/limits", {}, { signal }), []);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && !paused.value && list.reload(), AGAIN);
    return () => clearInterval(timer);
  }, [list.reload]);
  before.list = list.data || before.list;
  before.kpi = kpi.data || before.kpi;
  const agents = before.list?.agents || [];
  const chosen = agents.find((agent) => agent.name === params.name);
  const move = (step) => {
    if (!agents.length) return;
    const next = agents[Math.max(0, Math.min(agents.length - 1, agents.indexOf(chosen) + step))];
    navigate(at`/agents/${next.name}`, { replace: Boolean(chosen) });
  };
  useKeys({ j: { label: "next agent", run: () => move(1) }, k: { label: "agent before", run: () => move(-1) } });
  if (!before.list && list.error) return html`<h1>Agents</h1><${Problem} error=${list.error} retry=${list.reload} />`;
  if (!before.list) return html`<h1>Agents</h1><${Loading} what="agents" />`;
  const velocity = before.kpi?.metrics.velocity_by_agent || {};
  const close = () => navigate("/agents");
  return html`<div class="head"><div><h1 aria-live="polite">${headline(agents)}</h1><${Summary} agents=${agents} /></div></div>
    ${list.error && html`<${Problem} error=${list.error} retry=${list.reload} />`}
    <div class=${params.name ? "split" : "split closed"}><div><${Table} agents=${agents} chosen=${chosen} velocity=${velocity} /><${People} people=${limits.data?.people || []} /></div>
      ${chosen && html`<${Detail} key=${chosen.name} agent=${chosen} velocity=${velocity[chosen.name]} onClose=${close} onChange=${list.reload} />`}
      ${params.name && !chosen && html`<${Empty} title="There is no such agent" action=${html`<a href="/agents">All agents</a>`}>No agent is named ${params.name}; a specialist that was retired is gone.<//>`}</div>`;
}

function People({ people }) {
  if (!people.length) return null;
  const parts = (each) => [
    each.most_open && `${each.open_goals} of ${each.most_open} goals open`,
    each.day_goals && `${each.goals} of ${each.day_goals} goals today`,
    each.day_tokens && `${each.tokens.toLocaleString("en")} of ${each.day_tokens.toLocaleString("en")} tokens today`,
    each.day_cost && `$${each.cost.toFixed(2)} of $${each.day_cost.toFixed(2)} today`,
  ].filter(Boolean);
  return html`<h2>People <small>who have limits</small></h2>
    <ul>${people.map((each) => html`<li key=${each.person}><b>${each.person}</b>: <span class="soft">${parts(each).join(", ")}</span></li>`)}</ul>`;
}

function Table({ agents, chosen, velocity }) {
  if (!agents.length) return html`<${Empty} title="No agent is there">Start the office with <code>mailroom up</code>.<//>`;
  const specialists = agents.filter((agent) => agent.name.startsWith("specialist-"));
  const staff = agents.filter((agent) => !specialists.includes(agent));
  return html`<${Group} label="Agents" agents=${staff} chosen=${chosen} velocity=${velocity} />
    <h2>Specialists <small>${specialists.length ? plural(specialists.length, "specialist") : "none now"}</small></h2>
    ${specialists.length ? html`<${Group} label="Specialists" agents=${specialists} chosen=${chosen} velocity=${velocity} />`
      : html`<p class="soft">If no agent fits a task, the conductor makes a specialist for its field. With a model it does so by itself.</p>`}`;
}

function Group({ label, agents, chosen, velocity }) {
  return html`<div class="agent-row agent-head" aria-hidden="true"><span>Agent</span><span>State</span><span>Slots</span><span class="does">Does</span><span class="waits">Mailbox</span><span class="took">Median task</span><span class="cost">Models today</span></div><div class="agents" role="list" aria-label=${label}>${agents.map(
    (agent) => html`<${AgentRow} key=${agent.name} agent=${agent} velocity=${velocity[agent.name]} chosen=${agent === chosen} />`,
  )}</div>`;
}

function headline(agents) {
  const working = agents.filter((agent) => agent.state === "running" && agent.name !== "gateway");
  const busy = working.filter((agent) => agent.load > 0).map((agent) => agent.name);
  const names = busy.length > 3 ? `${busy.length} busy` : busy.length ? `${new Intl.ListFormat("en").format(busy)} busy` : "all idle";
  return working.length ? `${plural(working.length, "agent")} and the gateway running, ${names}` : "No agent is running";
}

function Summary({ agents }) {
  const of = (state) => agents.filter((agent) => agent.state === state);
  const waits = agents.reduce((sum, agent) => sum + agent.waiting, 0);
  return html`<div class="meta">${of("paused").length > 0 && html`<span class="wait">‖ paused: <b>${of("paused").map((agent) => agent.name).join(", ")}</b></span>`}
    ${agents.flatMap((agent) => agent.troubled).map((text) => html`<span class="bad" key=${text}>✕ ${text}</span>`)}
    ${of("stopped").length > 0 && html`<span class="bad">✕ not running: <b>${of("stopped").map((agent) => agent.name).join(", ")}</b></span>`}
    <span>${waits ? html`<b>${plural(waits, "message")}</b> wait in their mailboxes` : "nothing waits in their mailboxes"}</span><a href="/models">what leaves for models</a></div>`;
}

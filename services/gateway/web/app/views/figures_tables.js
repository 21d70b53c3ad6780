// Below the figures: how agents did at kinds of tasks, and whether the installation is in order.

import { AgentChip } from "../ui/agent.js";
import { Button } from "../ui/button.js";
import { Loading, Problem } from "../ui/empty.js";
import { count, dollars, plural, span } from "../ui/format.js";
import { html, useState } from "../ui/html.js";

const SHOWN = 12;
const MARKS = { ok: ["✓", "in order"], warn: ["▲", "to be fixed"], fail: ["✕", "broken"] };

function median(numbers) {
  const ordered = [...numbers].sort((one, other) => one - other);
  const middle = ordered.length >> 1;
  return ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
}

export function Experience({ agents }) {
  const [all, setAll] = useState(false);
  if (!agents.length) return null;
  const ordered = [...agents].sort((one, other) => other.completed + other.failed - one.completed - one.failed);
  const shown = all ? ordered : ordered.slice(0, SHOWN);
  return html`<h2>By agent and kind of task <small>${plural(agents.length, "kind")}</small></h2>
    <div class="scrolls" tabindex="0" role="region" aria-label="By agent and kind of task"><table class="experience"><thead><tr><th>agent</th><th>kind of task</th><th class="right">tasks</th><th class="right">done</th><th class="right">median</th><th class="right">tokens</th><th class="right">cost</th></tr></thead>
    <tbody>${shown.map((each) => html`<${ExperienceRow} key=${`${each.agent} ${each.kind}`} each=${each} />`)}</tbody></table></div>
    ${ordered.length > shown.length && html`<p><button type="button" onClick=${() => setAll(true)}>Show all ${ordered.length}</button></p>`}`;
}

function ExperienceRow({ each }) {
  const tasks = each.completed + each.failed;
  return html`<tr><td><${AgentChip} name=${each.agent} /></td><td class="mono">${each.kind}</td><td class="right number">${count(tasks)}</td>
    <td class=${`right number ${each.failed ? "warn" : ""}`}>${Math.floor((each.completed / tasks) * 100)}%</td>
    <td class="right number">${each.seconds.length ? span(median(each.seconds)) : ""}</td><td class="right number">${each.tokens ? count(each.tokens) : ""}</td><td class="right number">${each.cost ? dollars(each.cost) : ""}</td></tr>`;
}

export function Checks({ doctor }) {
  return html`<h2>Installation ${doctor.data && html`<small>${verdictText(doctor.data)}</small>`}<${Button} kind="plain" onClick=${doctor.reload}>Check again<//></h2>
    ${doctor.error ? html`<${Problem} error=${doctor.error} retry=${doctor.reload} />` : !doctor.data ? html`<${Loading} what="checks" />`
      : html`<ul class="checks">${doctor.data.checks.map((check) => html`<li key=${check.name} class=${check.verdict}><span class="mark"><span aria-hidden="true">${MARKS[check.verdict][0]}</span><span class="visually-hidden">${MARKS[check.verdict][1]}</span></span
        ><b>${check.name}</b><span>${check.finding}${check.fix && html` <span class="fix">Fix: ${check.fix}</span>`}</span></li>`)}</ul>`}`;
}

function verdictText({ checks }) {
  const bad = checks.filter((check) => check.verdict !== "ok").length;
  return bad ? `${plural(bad, "thing")} to fix` : "all in order";
}

// The report, the diff and the evidence of a goal.

import { at, get } from "../../api.js";
import { may } from "../../store.js";
import { Button } from "../../ui/button.js";
import { Diff } from "../../ui/diff.js";
import { Empty, Loading, Problem } from "../../ui/empty.js";
import { html } from "../../ui/html.js";
import { Markdown } from "../../ui/markdown.js";
import { useResource } from "../../ui/resource.js";
import { applyAll } from "./actions.js";
import { Ref } from "./ref.js";

export function ReportTab({ goal }) {
  const report = useResource((signal) => get(at`/goals/${goal.goal_id}/report`, {}, { signal }), [goal.goal_id, goal.ended_at]);
  if (report.error) return html`<${Problem} error=${report.error} retry=${report.reload} />`;
  if (report.data === null) return html`<${Loading} what="the report" />`;
  return html`<article class="panel report"><${Markdown} text=${report.data} /></article>`;
}

const FITS = {
  fits: "It fits the folder as it is now.",
  merges: "The folder has changed since; git can merge it.",
  applied: "The folder has it already.",
};

export function DiffTab({ goal }) {
  const diff = useResource((signal) => get(at`/goals/${goal.goal_id}/diff`, {}, { signal }), [goal.goal_id, goal.position]);
  if (!diff.data && diff.error) return html`<${Problem} error=${diff.error} retry=${diff.reload} />`;
  if (!diff.data) return html`<${Loading} what="the diff" />`;
  if (!diff.data.patches.length) return html`<${Empty} title="There is no diff any more">The files of the patch are not on this machine.<//>`;
  return diff.data.patches.map((patch) => html`<section key=${patch.path} aria-label=${patch.project}><div class="head"><div><h2>${patch.project}</h2>
      <p class="soft">${patch.folder && html`<code>${patch.folder}</code> · `}${FITS[patch.fit] || patch.problem} ${patch.fit === "refused" && patch.cure}</p>
      ${patch.fit === "applied" && patch.undo && html`<p class="soft">To undo it: <code>${patch.undo}</code></p>`}</div>
      ${may("approve") && ["fits", "merges"].includes(patch.fit) && html`<div class="actions"><${Button} kind="primary" onClick=${() => applyAll(goal, diff.reload, [patch.project])}>Apply<//></div>`}</div>
    <${Diff} text=${patch.diff} /></section>`);
}

export function EvidenceTab({ goal, onOpen }) {
  const { findings } = goal;
  const places = new Set(findings.map((each) => (each.line ? `${each.file}:${each.line}` : each.file)));
  const others = goal.evidence.filter((each) => !places.has(each));
  return html`${findings.length > 0 && html`<div class="tablebox"><table><caption class="visually-hidden">Findings</caption><thead><tr><th>Severity</th><th>What</th><th>Where</th><th>Found by</th></tr></thead><tbody>
      ${findings.map((each, index) => html`<tr key=${index}><td><${Severity} level=${each.severity} /></td><td>${each.message}</td><td><${Ref} name=${each.line ? `${each.file}:${each.line}` : each.file} onOpen=${onOpen} /></td><td class="soft">${each.tool} ${each.rule}</td></tr>`)}</tbody></table></div>`}
    ${goal.findings_total > findings.length && html`<p class="soft">${goal.findings_total - findings.length} more, in the report.</p>`}
    ${others.length > 0 && html`<h2>Places and logs</h2><p class="refs">${others.map((each) => html`<${Ref} key=${each} name=${each} onOpen=${onOpen} /> `)}</p>`}`;
}

const LEVELS = { high: ["✕", "bad"], medium: ["▲", "warn"], low: ["○", "soft"] };

function Severity({ level }) {
  const [mark, kind] = LEVELS[level] || LEVELS.low;
  return html`<span class=${`severity ${kind}`}><span aria-hidden="true">${mark}</span> ${level}</span>`;
}

// Two goals side by side: plan, agents, what came of them, time, tokens, patch. What differs stands out.

import { at, get } from "../api.js";
import { setQuery } from "../router.js";
import { AgentChip } from "../ui/agent.js";
import { Diff } from "../ui/diff.js";
import { Empty, Loading, Problem } from "../ui/empty.js";
import { costOf, count, plural, span } from "../ui/format.js";
import { html } from "../ui/html.js";
import { Markdown } from "../ui/markdown.js";
import { Outcome } from "../ui/outcome.js";
import { useResource } from "../ui/resource.js";
import { Ago, Clock } from "../ui/time.js";

const OFFERED = 30;

export default function Compare({ params, query }) {
  const one = useGoal(params.id);
  const other = useGoal(params.other);
  const error = one.error || other.error;
  if (error) return html`<h1>Two goals</h1><${Problem} error=${error} />`;
  if (!one.data || (params.other && !other.data)) return html`<h1>Two goals</h1><${Loading} what="the goals" />`;
  if (!params.other) return html`<${Choice} goal=${one.data} words=${query.text || ""} />`;
  return html`<h1>Two goals</h1><${Sides} goals=${[one.data, other.data]} />`;
}

function useGoal(id) {
  return useResource(async (signal) => {
    if (!id) return null;
    const goal = await get(at`/goals/${id}`, {}, { signal });
    const found = goal.patches.length ? await get(at`/goals/${id}/diff`, {}, { signal }).catch(() => ({ patches: [] })) : { patches: [] };
    return { ...goal, diffs: found.patches };
  }, [id]);
}

/** Which other goal: those with the same words first. */
function Choice({ goal, words }) {
  const found = useResource((signal) => get("/goals", { text: words, limit: OFFERED }, { signal }), [words]);
  const near = (each) => Number(each.goal_id === goal.retry_of) + Number(each.title === goal.text.split("\n")[0]);
  const goals = (found.data?.goals || []).filter((each) => each.goal_id !== goal.goal_id).sort((a, b) => near(b) - near(a));
  return html`<h1>Compare with which goal?</h1><p class="soft">${goal.text.split("\n")[0]}</p>
    <p><input type="search" aria-label="Words in a goal" placeholder="Words of a goal, or its id" value=${words} onInput=${(event) => setQuery({ text: event.target.value })} /></p>
    ${found.error && html`<${Problem} error=${found.error} retry=${found.reload} />`}
    ${found.data && !goals.length && html`<${Empty} title="No other goal is like this">Look for other words.<//>`}
    <ul class="choices panel">${goals.map((each) => html`<li key=${each.goal_id}><a href=${at`/compare/${goal.goal_id}/${each.goal_id}`}><${Outcome} ...${each} bare /> ${each.title}</a> <span class="soft"><${Ago} at=${each.submitted_at} /></span></li>`)}</ul>`;
}

/** A line for each thing that is compared: its name, its value as text by which it differs, and how it is shown. */
const LINES = [
  ["Goal", (goal) => goal.text, (goal) => html`<a href=${at`/goals/${goal.goal_id}`}>${goal.text.slice(0, 300)}</a>`],
  ["Submitted", () => "", (goal) => html`<${Clock} at=${goal.submitted_at} />${goal.person ? ` by ${goal.person}` : ""}`],
  ["Came to", (goal) => goal.status + goal.outcome, (goal) => html`<${Outcome} status=${goal.status} outcome=${goal.outcome} waits=${goal.state === "waiting"} />`],
  ["Answer", (goal) => goal.answer || goal.reason, (goal, text) => html`<${Markdown} text=${text} />`],
  ["Plan", (goal) => planOf(goal).map((task) => `${task.name} ${task.assignee} ${task.status} ${task.outcome}`).join("\n"), (goal) => html`<${Plan} goal=${goal} />`],
  ["Agents", (goal) => agentsOf(goal).join(" "), (goal) => agentsOf(goal).map((name) => html`<${AgentChip} key=${name} name=${name} /> `)],
  ["Tests", (goal) => goal.tests.map((run) => run.problem || `${run.passed} passed, ${run.failed} failed`).join("; "), (goal, text) => text],
  ["Findings", (goal) => (goal.findings_total ? String(goal.findings_total) : ""), (goal, text) => text],
  ["Review", (goal) => goal.review, (goal, text) => text],
  ["Time", (goal) => span(goal.seconds), (goal, text) => html`<b class="number">${text}</b>`],
  ["Tokens", (goal) => (goal.tokens ? `${count(goal.input_tokens)} in, ${count(goal.output_tokens)} out, ${costOf(goal.cost, goal.tokens)}` : "no model used"), (goal, text) => text],
  ["Patch", (goal) => goal.diffs.map((each) => each.diff).join("\n"), (goal) => html`<${Patch} diffs=${goal.diffs} />`],
];

function planOf(goal) {
  return goal.tasks.filter((task) => !task.earlier);
}

function agentsOf(goal) {
  return [...new Set(goal.rows.map((row) => row.agent))].filter(Boolean).sort();
}

function Plan({ goal }) {
  const by = goal.playbook === "brain" ? "by a model" : goal.playbook && `playbook ${goal.playbook}`;
  return html`${by && html`<span class="soft">${by}</span>`}<ol class="plainlist">${planOf(goal).map((task) => html`<li key=${task.task_id}><${Outcome} status=${task.status} outcome=${task.outcome} bare /> ${task.name} <span class="soft">${task.assignee}</span></li>`)}</ol>`;
}

function Patch({ diffs }) {
  return diffs.map((each) => html`<details key=${each.path}><summary>${each.project}: ${plural(each.diff.split("\n").filter((line) => line.startsWith("+++ ")).length, "file")}</summary><${Diff} text=${each.diff} /></details>`);
}

function Sides({ goals }) {
  const shown = LINES.map(([name, value, show]) => ({ name, show, texts: goals.map(value) })).filter(({ name, texts }) => name === "Submitted" || texts.some(Boolean));
  return html`<div class="sides" role="table" aria-label="Two goals side by side">${shown.map(({ name, show, texts }) => html`<div role="row" key=${name} class=${texts[0] === texts[1] ? "" : "differs"}>
    <h2 role="rowheader">${name}${texts[0] !== texts[1] && html` <span class="warn" title="differs"><span aria-hidden="true">≠</span><span class="visually-hidden">differs</span></span>`}</h2>${goals.map((goal, index) => html`<div role="cell" key=${index}>${name === "Submitted" || texts[index] ? show(goal, texts[index]) : html`<span class="faint">none</span>`}</div>`)}</div>`)}</div>`;
}

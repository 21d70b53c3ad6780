// The board: a column for each state that a goal can be in.

import { at } from "../api.js";
import { focusDrawn, useKeys } from "../keyboard.js";
import { AgentChip } from "../ui/agent.js";
import { dollars, plural } from "../ui/format.js";
import { html, useRef, useState } from "../ui/html.js";
import { Outcome } from "../ui/outcome.js";
import { Bar } from "../ui/bar.js";
import { Ago, Took } from "../ui/time.js";

const SHOWN = 20; // goals of a column before "more"
const COLUMNS = [
  { name: "working", title: "At work", none: "Nobody is at work." },
  { name: "waiting", title: "Waits for you", none: "Nothing waits." },
  { name: "ended", title: "Ended", none: "Nothing has ended." },
];

export function Columns({ goals, selected, onSelect, onOpen }) {
  const box = useRef(null);
  const columns = COLUMNS.map((column) => ({ ...column, goals: goals.filter((goal) => columnOf(goal) === column.name) }));
  const go = (across, down) => {
    const next = neighbour(columns, selected, across, down);
    if (!next) return;
    onSelect(next.goal_id);
    focusDrawn(() => box.current?.querySelector(".card.selected"));
  };
  const current = goals.find((goal) => goal.goal_id === selected);
  useKeys({
    j: { label: "next goal", run: () => go(0, 1) },
    k: { label: "goal before", run: () => go(0, -1) },
    l: { label: "column to the right", run: () => go(1, 0) },
    h: { label: "column to the left", run: () => go(-1, 0) },
    Enter: { label: "open", run: () => current && onOpen(current) },
  });
  return html`<div class="columns" ref=${box}>${columns.map((column) => html`<${Column} key=${column.name} column=${column} selected=${selected} onSelect=${onSelect} />`)}</div>`;
}

function columnOf(goal) {
  return goal.state === "waiting" || goal.state === "ended" ? goal.state : "working";
}

/** The goal beside the selected one; the first there is if none is selected. */
function neighbour(columns, selected, across, down) {
  const filled = columns.filter((column) => column.goals.length);
  const x = filled.findIndex((column) => column.goals.some((goal) => goal.goal_id === selected));
  if (x < 0) return filled[0]?.goals[0];
  const y = filled[x].goals.findIndex((goal) => goal.goal_id === selected);
  const next = filled[Math.max(0, Math.min(filled.length - 1, x + across))].goals;
  return next[Math.max(0, Math.min(next.length - 1, y + down))];
}

function Column({ column, selected, onSelect }) {
  const [all, setAll] = useState(false);
  const at = column.goals.findIndex((goal) => goal.goal_id === selected);
  const shown = all || at >= SHOWN ? column.goals : column.goals.slice(0, SHOWN);
  return html`<section class=${`column ${column.name}${column.goals.length ? "" : " nothing"}`} aria-label=${column.title}><h2>${column.title}<small>${column.goals.length}</small></h2>
    ${!column.goals.length && html`<p class="none">${column.none}</p>`}
    <ul>${shown.map((goal) => html`<li key=${goal.goal_id}><${Card} goal=${goal} selected=${goal.goal_id === selected} onSelect=${onSelect} /></li>`)}</ul>
    ${column.goals.length > shown.length && html`<button type="button" class="plain" onClick=${() => setAll(true)}>${column.goals.length - shown.length} more</button>`}</section>`;
}

function Card({ goal, selected, onSelect }) {
  const open = goal.state !== "ended";
  return html`<a class=${`card${selected ? " selected" : ""}`} href=${at`/goals/${goal.goal_id}`} aria-current=${selected ? "true" : undefined} onFocus=${() => onSelect(goal.goal_id)}>
    <span class="words">${!open && html`<${Outcome} ...${goal} bare />`}${goal.title}</span>
    ${!open && goal.summary && goal.summary !== goal.title && html`<span class="summary">${goal.summary}</span>`}
    ${goal.state === "planning" && html`<span class="soft">is being planned</span>`}${goal.state === "review" && html`<span class="soft">in review</span>`}
    ${goal.workers.length > 0 && html`<span class="workers">${goal.workers.slice(0, 4).map((worker) => html`<${AgentChip} key=${worker.agent + worker.task} name=${worker.agent} />`)}</span>`}
    <span class="figures">${goal.tasks_all > 0 && open && html`<span><${Bar} value=${goal.tasks_done} most=${goal.tasks_all} label=${`${goal.tasks_done} of ${plural(goal.tasks_all, "task")} done`} /> ${goal.tasks_done}/${goal.tasks_all}</span>`}
      ${goal.tasks_failed > 0 && open && html`<span class="bad">✕ ${goal.tasks_failed} failed</span>`}
      <${Took} from=${goal.submitted_at} to=${goal.ended_at} />${goal.cost > 0 && html`<span>${dollars(goal.cost)}</span>`}
      <span class="when"><${Ago} at=${goal.ended_at || goal.submitted_at} /></span></span></a>`;
}

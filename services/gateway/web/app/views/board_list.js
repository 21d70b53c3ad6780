// Goals by time, the latest first: any number of them.

import { at } from "../api.js";
import { narrow } from "../store.js";
import { AgentChip } from "../ui/agent.js";
import { costOf, count, dollars, plural, span } from "../ui/format.js";
import { html, useMemo } from "../ui/html.js";
import { Outcome } from "../ui/outcome.js";
import { Rows } from "../ui/rows.js";
import { Bar } from "../ui/bar.js";
import { Ago, Took } from "../ui/time.js";

export function List({ goals, selected, onSelect, onOpen, added, onEnd }) {
  const most = useMemo(() => ({ cost: Math.max(0, ...goals.map((goal) => goal.cost)), seconds: Math.max(0, ...goals.map((goal) => goal.seconds)) }), [goals]);
  return html`<div class="goal-list"><div class="listhead" aria-hidden="true"><span class="mark"></span><span class="text">Goal</span><span class="workers">At work</span><span class="tasks">Tasks</span><span class="measure">Time</span><span class="measure">Cost</span><span class="when">Submitted</span></div>
    <${Rows} label="Goals, the latest first" count=${goals.length} keyOf=${(index) => goals[index].goal_id} href=${(index) => at`/goals/${goals[index].goal_id}`}
      selected=${goals.findIndex((goal) => goal.goal_id === selected)} onSelect=${(index) => onSelect(goals[index].goal_id)} onOpen=${(index) => onOpen(goals[index])}
      added=${added} onEnd=${onEnd} height=${narrow.value ? 58 : 40} tall=${narrow.value ? "calc(100vh - 320px)" : "calc(100vh - 260px)"} render=${(index) => html`<${Row} goal=${goals[index]} most=${most} />`} /></div>`;
}

function Row({ goal, most }) {
  return html`<span class="mark"><${Outcome} ...${goal} waits=${goal.state === "waiting"} bare /></span><span class="text">${goal.title}</span>
    <span class="workers">${goal.workers.slice(0, 3).map((worker) => html`<${AgentChip} key=${worker.agent + worker.task} name=${worker.agent} />`)}</span>
    <span class="tasks number">${goal.tasks_all ? `${goal.tasks_done}/${goal.tasks_all}` : ""}</span>
    <span class="measure"><${Bar} value=${goal.seconds} most=${most.seconds} label=${`took ${span(goal.seconds)}`} /><${Took} from=${goal.submitted_at} to=${goal.ended_at} /></span>
    <span class="measure">${goal.cost > 0 || goal.tokens > 0 ? html`<${Bar} value=${goal.cost} most=${most.cost} label=${`${costOf(goal.cost, goal.tokens)}, ${plural(goal.tokens, "token")}`} /><span class="number">${goal.cost > 0 ? dollars(goal.cost) : `${count(goal.tokens)} tok`}</span>` : ""}</span>
    <span class="when"><${Ago} at=${goal.submitted_at} /></span>`;
}

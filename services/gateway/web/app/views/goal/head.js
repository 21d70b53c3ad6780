// The title of a goal and its facts: what it came to, when, how long, for whom, what it cost.

import { at } from "../../api.js";
import { costOf, count, dollars, plural } from "../../ui/format.js";
import { html } from "../../ui/html.js";
import { Outcome } from "../../ui/outcome.js";
import { Clock, Took } from "../../ui/time.js";

export function Head({ goal }) {
  const waits = goal.state === "waiting";
  return html`<div><h1>${title(goal.text)}</h1><div class="meta">
    <${Outcome} status=${goal.status} outcome=${goal.outcome} waits=${waits} />
    <span><b><${Took} from=${goal.submitted_at} to=${goal.ended_at} /></b> · <${Clock} at=${goal.submitted_at} /></span>
    <span>for <b>${goal.person || (goal.requester === "user" ? "you" : goal.requester)}</b></span>
    <${Cost} goal=${goal} />
    ${goal.playbook && html`<span>${goal.playbook === "brain" ? html`planned by a <b>model</b>` : html`playbook <b>${goal.playbook}</b>`}</span>`}
    ${goal.priority !== "MEDIUM" && html`<span>priority <b>${goal.priority.toLowerCase()}</b></span>`}
    ${goal.is_applied && html`<span class="ok">✓ diff applied</span>`}
    ${goal.retry_of && html`<span>again: <a href=${`/goals/${encodeURIComponent(goal.retry_of)}`}>the one before</a></span>`}
  </div></div>`;
}

function title(text) {
  const line = text.split("\n", 1)[0];
  return line.length > 220 ? `${line.slice(0, 219)}…` : line;
}

function Cost({ goal }) {
  if (!goal.tokens && !goal.cost) return html`<span>no model used</span>`;
  const { day_cost: limit, goal_tokens: tokens, goal_cost: cost, today } = goal.budget;
  const tightest = today.reduce((most, each) => (each.cost > (most?.cost ?? -1) ? each : most), null);
  const left = limit && tightest ? Math.max(0, limit - tightest.cost) : null;
  const hint = [
    `${count(goal.input_tokens)} tokens in, ${count(goal.output_tokens)} out`,
    goal.cached_tokens && `${count(goal.cached_tokens)} of those read came from the providers' caches`,
    ...goal.fallbacks.map((each) => `${each.model} answered instead of ${each.instead_of}`),
    goal.budget.task_tokens && `at most ${count(goal.budget.task_tokens)} tokens a task`,
    ...today.map((each) => `${each.agent} today: ${count(each.tokens)} tokens, ${costOf(each.cost, each.tokens)}${limit ? ` of ${dollars(limit)}` : ""}`),
  ].filter(Boolean);
  return html`<span title=${hint.join("\n")}><b class="number">${plural(goal.tokens, "token")}</b>${tokens > 0 && ` of ${count(tokens)}`} · <b class="number">${costOf(goal.cost, goal.tokens)}</b>${cost > 0 && ` of ${dollars(cost)}`}
    ${goal.cached_tokens > 0 && html` · <b class="number">${Math.round((100 * goal.cached_tokens) / goal.input_tokens)} %</b> cached`}
    ${goal.fallbacks.map((each) => html` · <span class="warn">by ${each.model} since <${Clock} at=${each.since} /></span>`)}
    ${left !== null && html` · ${dollars(left)} left today`} · <a href=${at`/models/${goal.goal_id}`}>what was sent</a></span>`;
}

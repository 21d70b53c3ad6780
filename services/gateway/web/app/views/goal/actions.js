// What one can do to a goal: apply its diff, do it again, compare it, steer it, set its budget, stop it.

import { at, post } from "../../api.js";
import { navigate, setQuery } from "../../router.js";
import { may } from "../../store.js";
import { Button } from "../../ui/button.js";
import { ask } from "../../ui/dialog.js";
import { plural } from "../../ui/format.js";
import { html } from "../../ui/html.js";
import { attempt } from "../../ui/toast.js";

/** Every action that is possible now: [{key, name, kind, run}]. */
function possible(goal, reload) {
  const over = goal.state === "ended";
  return [
    goal.patches.length > 0 && !goal.is_applied && may("approve") && { key: "a", name: "Apply diff", kind: "primary", run: () => applyAll(goal, reload) },
    over && may("submit") && { key: "r", name: "Retry", kind: "", run: () => retry(goal) },
    may("submit") && { key: "s", name: over ? "Continue" : "Steer", kind: "", run: () => steer(goal, reload, over) },
    !over && may("submit") && { key: "b", name: "Budget", kind: "", run: () => raise(goal, reload) },
    over && { key: "c", name: "Compare", kind: "", run: () => navigate(goal.retry_of ? at`/compare/${goal.retry_of}/${goal.goal_id}` : at`/compare/${goal.goal_id}`) },
    !over && may("submit") && { key: "x", name: "Stop", kind: "danger", run: () => stop(goal, reload) },
  ].filter(Boolean);
}

export function goalKeys(goal, reload) {
  return Object.fromEntries(possible(goal, reload).map(({ key, name, run }) => [key, { label: name.toLowerCase(), run }]));
}

export function Actions({ goal, reload }) {
  return html`<div class="actions">${possible(goal, reload).map(
    ({ key, name, kind, run }) => html`<${Button} key=${key} keys=${key} kind=${kind} onClick=${run}>${name}<//>`,
  )}</div>`;
}

/** Apply patches after a question; of all projects, or of those named. */
export async function applyAll(goal, reload, projects = []) {
  setQuery({ tab: "diff" });
  const what = projects.length ? projects.join(", ") : plural(goal.patches.length, "patch", "patches");
  const yes = await ask({
    title: "Apply the diff?",
    text: `${what}: the files of the project are changed where it lies. Git can undo it; the command is shown then.`,
    yes: "Apply",
  });
  if (!yes) return;
  const done = await attempt(() => post(at`/goals/${goal.goal_id}/apply`, { projects }));
  if (!done) return;
  const failed = done.patches.filter((each) => each.problem);
  await attempt(() => {
    if (failed.length) throw new Error(failed.map((each) => `${each.project || each.path}: ${each.problem} ${each.cure || ""}`).join(" "));
  }, "Applied");
  await reload();
}

async function retry(goal) {
  const yes = await ask({ title: "Do it again?", text: "A new goal with the same words begins. This one stays as it is.", yes: "Retry" });
  if (!yes) return;
  const begun = await attempt(() => post(at`/goals/${goal.goal_id}/retry`), "Begun again");
  if (begun) navigate(`/goals/${encodeURIComponent(begun.goal_id)}`);
}

async function steer(goal, reload, over) {
  const text = await ask({
    title: over ? "Continue this goal" : "Steer the agents at work",
    text: over ? "The agents continue from its results and follow what you write." : "They read it before their next step, and it counts more than what was asked before.",
    field: over ? "What should they do next?" : "What should they do differently?",
    yes: "Send",
    required: !over,
  });
  if (text === null) return;
  const said = await attempt(() => post(at`/goals/${goal.goal_id}/say`, { text: text === true ? "" : text }), "Said");
  if (said !== undefined) await reload();
}

async function raise(goal, reload) {
  const { goal_tokens: tokens, goal_cost: cost } = goal.budget;
  const value = [tokens && String(tokens), cost && `$${cost}`].filter(Boolean).join(",");
  const text = await ask({
    title: "Budget of this goal",
    text: `What models may use for it in all: tokens, dollars or both, as 300k or 300k,$2. It has used ${plural(goal.tokens, "token")}. It holds from the next question to a model on.`,
    field: "Budget",
    value,
    yes: "Set",
  });
  if (text && (await attempt(() => post(at`/goals/${goal.goal_id}/say`, { budget: text }), "Set")) !== undefined) await reload();
}

async function stop(goal, reload) {
  const yes = await ask({
    title: "Stop this goal?",
    text: "Its commands end within two seconds and its open tasks are cancelled. What was done already stays, and is reported.",
    yes: "Stop it",
    danger: true,
  });
  if (!yes) return;
  const stopped = await attempt(() => post(at`/goals/${goal.goal_id}/cancel`, {}), "Stopped");
  if (stopped !== undefined) await reload();
}

// What can be done to the goal that is selected: stop it, do it again, steer it.

import { at, post } from "../api.js";
import { useKeys } from "../keyboard.js";
import { may } from "../store.js";
import { ask } from "../ui/dialog.js";
import { attempt } from "../ui/toast.js";

export function useGoalKeys(goal, reload) {
  const open = goal && goal.state !== "ended";
  const act = async (run, done) => {
    await attempt(run, done);
    reload();
  };
  const stop = async () => {
    const reason = await ask({ title: "Stop this goal", text: goal.title, field: "Why (may stay empty)", required: false, yes: "Stop", danger: true });
    if (reason !== null) await act(() => post(at`/goals/${goal.goal_id}/cancel`, { reason }), "Stopped.");
  };
  const steer = async () => {
    const text = await ask({ title: "Steer this goal", text: goal.title, field: "What the agents should mind", yes: "Say it" });
    if (text) await act(() => post(at`/goals/${goal.goal_id}/say`, { text }), "Said.");
  };
  const retry = () => act(() => post(at`/goals/${goal.goal_id}/retry`), "Begun again, as a new goal.");
  const keys = !goal || !may("submit") ? {} : open ? { x: { label: "stop it", run: stop }, s: { label: "steer it", run: steer } } : { r: { label: "do it again", run: retry }, s: { label: "go on with it", run: steer } };
  useKeys(keys);
}

// Goals on a schedule: each with its next runs, how it went, and what can be done with it; the form for a new one.

import { at, post, remove } from "../api.js";
import { may, now } from "../store.js";
import { ask } from "../ui/dialog.js";
import { plural } from "../ui/format.js";
import { html, useRef, useState } from "../ui/html.js";
import { Ago } from "../ui/time.js";
import { attempt, toast } from "../ui/toast.js";
import { sayTime } from "./timetable_times.js";

export function ScheduledGoals({ goals, zone, reload }) {
  return html`<section class="night panel" aria-label="Goals on a schedule"><h2>Goals on a schedule ${goals.length > 0 && html`<small>${plural(goals.length, "goal")}</small>`}</h2>
    ${!goals.length && html`<p class="soft">None. Each run of one is a goal of its own; one that was missed runs once when the office is back.</p>`}
    <ul>${goals.map((each) => html`<${Scheduled} key=${each.id} each=${each} zone=${zone} reload=${reload} />`)}</ul>
    ${may("submit") && html`<${NewSchedule} reload=${reload} />`}</section>`;
}

function Scheduled({ each, zone, reload }) {
  const paused = each.status === "paused";
  return html`<li><span class=${paused ? "soft" : "ok"} aria-hidden="true">${paused ? "‖" : "↻"}</span><span class="what"><span class="text">${each.text}</span>
    <span class="under"><span>${each.every || "once"}</span>${paused ? html`<span>paused</span>` : html`<span>next ${sayTime(Date.parse(each.at), now.value, zone)}</span>`}
      ${each.last && html`<span>last <a href=${at`/goals/${each.last}`}><${Ago} at=${each.last_at} /></a></span>`}${each.runs > 0 && html`<span>${plural(each.runs, "run")}</span>`}${each.missed > 0 && html`<span>${each.missed} left out</span>`}</span>
    ${each.note && html`<span class="soft">${each.note}.</span>`}
    ${may("submit") && html`<${Actions} each=${each} paused=${paused} reload=${reload} />`}</span></li>`;
}

function Actions({ each, paused, reload }) {
  const act = (run, done) => async () => {
    await attempt(run, done);
    await reload();
  };
  const path = (verb) => at`/timetable/${each.id}/${verb}`;
  const drop = async () => {
    const sure = await ask({ title: "Remove it from the schedule?", text: `${each.text} (${each.every || "once"}) has no further runs. A run that has begun goes on.`, yes: "Remove", danger: true });
    if (sure) await act(() => remove(at`/timetable/${each.id}`), "Removed")();
  };
  const named = html`<span class="visually-hidden">: ${each.text}</span>`;
  return html`<span class="actions"><button type="button" class="plain" onClick=${act(() => post(path("run")), "A run has begun")}>Run now${named}</button>
    <button type="button" class="plain" onClick=${act(() => post(path(paused ? "resume" : "pause")), paused ? "It goes on" : "Paused")}>${paused ? "Resume" : "Pause"}${named}</button>
    <button type="button" class="plain" onClick=${drop}>Remove${named}</button></span>`;
}

function NewSchedule({ reload }) {
  const form = useRef(null);
  const [busy, setBusy] = useState(false);
  const add = async (event) => {
    event.preventDefault();
    const { when, goal } = form.current.elements;
    setBusy(true);
    const answer = await attempt(() => post("/timetable", { what: "goal", when: when.value.trim(), text: goal.value.trim() }));
    setBusy(false);
    if (!answer) return when.focus();
    form.current.reset();
    toast(`It runs ${answer.item.every || "once"}.`);
    return reload();
  };
  return html`<form class="plan" ref=${form} onSubmit=${add}><label>Goal<input name="goal" required autocomplete="off" maxlength="20000" placeholder="Check up on ~/src/shop" /></label>
    <label>When<input name="when" required autocomplete="off" maxlength="500" placeholder="every weekday at 7" /></label><button class="primary" disabled=${busy}>Put on the schedule</button></form>`;
}

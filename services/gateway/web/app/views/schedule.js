// Schedule: what is going to happen by itself; reminders; goals on a schedule; the queue of the night.

import { at, get, post, remove } from "../api.js";
import { useKeys } from "../keyboard.js";
import { may, now } from "../store.js";
import { AgentChip } from "../ui/agent.js";
import { Empty, Loading, Problem } from "../ui/empty.js";
import { plural, relative } from "../ui/format.js";
import { html, useRef, useState } from "../ui/html.js";
import { useLiveResource } from "../ui/resource.js";
import { Ago, Clock } from "../ui/time.js";
import { attempt, toast } from "../ui/toast.js";
import { ScheduledGoals } from "./schedule_goals.js";
import { Night } from "./schedule_night.js";
import { sayDay, sayHour, sayTime } from "./schedule_times.js";

const CONCERNED = /^(record\.nexus\.(reminders|schedules)\.|record\.cortex\.night\.|state\.goal\.|task\.cortex\.)/;
const KINDS = { reminder: "reminder", briefing: "briefing", goal: "goal on a schedule", job: "night job", deadline: "has to end by then" };
const WHO = { reminder: "nexus", briefing: "nexus", goal: "nexus", job: "cortex", deadline: "conductor" };
const SHOWN = 40;

export default function Schedule() {
  const schedule = useLiveResource((signal) => get("/schedule", {}, { signal }), [], ({ message }) => CONCERNED.test(message.subject), 600);
  if (!schedule.data && schedule.error) return html`<h1>Schedule</h1><${Problem} error=${schedule.error} retry=${schedule.reload} />`;
  if (!schedule.data) return html`<h1>Schedule</h1><${Loading} what="what comes" />`;
  const { upcoming, reminders, schedules, night, time_zone: zone } = schedule.data;
  const next = upcoming.find((item) => item.kind !== "deadline") || upcoming[0];
  const sent = reminders.filter((reminder) => reminder.status === "fired");
  return html`<div class="head"><div><h1>${headline(next, zone)}</h1><div class="meta">${next && html`<span class="text"><b>${next.title}</b></span><span>${relative(Date.parse(next.at), now.value)}</span>`}
      ${zone && html`<span>times of the office: ${zone}</span>`}</div></div></div>
    ${schedule.error && html`<${Problem} error=${schedule.error} retry=${schedule.reload} />`}
    <div class="schedule"><div><${Reminders} sent=${sent} reload=${schedule.reload} /><${Days} upcoming=${upcoming} zone=${zone} reload=${schedule.reload} /></div>
    <div><${ScheduledGoals} schedules=${schedules} zone=${zone} reload=${schedule.reload} /><${Night} night=${night} zone=${zone} reload=${schedule.reload} /></div></div>`;
}

/** When the next thing happens, as one says it: "Next: tonight 02:00". */
function headline(next, zone) {
  return next ? `Next: ${sayTime(Date.parse(next.at), now.value, zone)}` : "Nothing is planned";
}

function Days({ upcoming, zone, reload }) {
  const [all, setAll] = useState(false);
  if (!upcoming.length) return html`<${Empty} title="Nothing happens by itself">Set a reminder above, put a goal on a schedule, or let the night work.<//>`;
  const shown = all ? upcoming : upcoming.slice(0, SHOWN);
  const days = grouped(shown, zone);
  return html`<h2>Coming up <small>${plural(upcoming.length, "thing")}</small></h2>${[...days].map(([day, items]) => html`<section class="day" key=${day} aria-label=${day}><h3>${day}</h3><ul class="panel">${items.map(
    (item) => html`<${Item} key=${`${item.kind}${item.id}${item.at}${item.title}`} item=${item} zone=${zone} reload=${reload} />`,
  )}</ul></section>`)}
    ${upcoming.length > shown.length && html`<p><button type="button" onClick=${() => setAll(true)}>Show all ${upcoming.length}</button></p>`}`;
}

function grouped(items, zone) {
  const days = new Map();
  for (const item of items) {
    const day = sayDay(Date.parse(item.at), now.value, zone);
    days.set(day, [...(days.get(day) || []), item]);
  }
  return days;
}

function Item({ item, zone, reload }) {
  const late = Date.parse(item.at) < now.value - 60000;
  return html`<li class="upcoming"><time class="number" datetime=${item.at}>${late && item.kind === "job" ? "now" : sayHour(Date.parse(item.at), zone)}</time>
    <span class="what"><span class="text">${item.kind === "deadline" ? html`<a href=${at`/goals/${item.id}`}>${item.title}</a>` : item.title}</span>
      <span class="under"><${AgentChip} name=${WHO[item.kind]} /><span>${KINDS[item.kind]}</span>${item.repeats && html`<span>${item.repeats}</span>`}</span></span>
    ${item.kind === "reminder" && may("submit") && html`<${Actions} id=${item.id} title=${item.title} reload=${reload} repeats=${item.repeats} />`}</li>`;
}

function Actions({ id, title, reload, done = false }) {
  const act = (run) => async () => {
    const answer = await attempt(run);
    if (answer) toast(answer.text.split("\n")[0]);
    await reload();
  };
  return html`<span class="actions">${done && html`<button type="button" onClick=${act(() => post(at`/reminders/${id}/done`))}>Done<span class="visually-hidden">: ${title}</span></button>`}
    <button type="button" class="plain" onClick=${act(() => post(at`/reminders/${id}/snooze`, { minutes: 60 }))}>1 h later<span class="visually-hidden">: ${title}</span></button>
    <button type="button" class="plain" onClick=${act(() => remove(at`/reminders/${id}`))}>Cancel<span class="visually-hidden">: ${title}</span></button></span>`;
}

/** Those that were sent and are not done yet, and the field for a new one. */
function Reminders({ sent, reload }) {
  const field = useRef(null);
  const [busy, setBusy] = useState(false);
  useKeys(may("submit") ? { n: { label: "new reminder", run: () => field.current?.focus() } } : {});
  const add = async (event) => {
    event.preventDefault();
    const text = field.current.value.trim();
    if (!text) return;
    setBusy(true);
    const answer = await attempt(() => post("/reminders", { text }));
    setBusy(false);
    if (!answer) return field.current.focus();
    field.current.value = "";
    toast(answer.text.split("\n")[0]);
    await reload();
  };
  return html`${may("submit") && html`<form class="remind" onSubmit=${add}><label for="remind">Remind me</label><input id="remind" ref=${field} autocomplete="off" maxlength="1000" placeholder="to call Ana tomorrow at 9:00" aria-keyshortcuts="n" />
      <button class="primary" disabled=${busy}>Set</button></form>`}
    ${sent.length > 0 && html`<h2>Sent, and open <small>${plural(sent.length, "reminder")}</small></h2><ul class="panel day">${sent.map((each) => html`<li class="upcoming" key=${each.reminder_id}><${Clock} at=${each.due_at} seconds=${false} />
      <span class="what"><span class="text">${each.text}</span><span class="under"><span>sent <${Ago} at=${each.fired_at} /></span></span></span>${may("submit") && html`<${Actions} id=${each.reminder_id} title=${each.text} reload=${reload} done />`}</li>`)}</ul>`}`;
}

// Timetable: what is going to happen by itself; reminders; goals on a schedule; the queue of the night.

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
import { ScheduledGoals } from "./timetable_goals.js";
import { Night } from "./timetable_night.js";
import { sayDay, sayHour, sayTime } from "./timetable_times.js";

const CONCERNED = /^(record\.nexus\.(due|timetable)\.|record\.cortex\.night\.|state\.goal\.|task\.cortex\.)/;
const KINDS = { mail: "reminder", briefing: "briefing", goal: "goal on a schedule", job: "night job", deadline: "has to end by then" };
const WHO = { mail: "nexus", briefing: "nexus", goal: "nexus", job: "cortex", deadline: "conductor" };
const SHOWN = 40;

export default function Timetable() {
  const timetable = useLiveResource((signal) => get("/timetable", {}, { signal }), [], ({ message }) => CONCERNED.test(message.subject), 600);
  if (!timetable.data && timetable.error) return html`<h1>Timetable</h1><${Problem} error=${timetable.error} retry=${timetable.reload} />`;
  if (!timetable.data) return html`<h1>Timetable</h1><${Loading} what="what comes" />`;
  const { items, night, time_zone: zone } = timetable.data;
  const upcoming = items.filter((item) => ["waiting", "snoozed"].includes(item.status));
  const next = upcoming.find((item) => item.what !== "deadline") || upcoming[0];
  const sent = items.filter((item) => item.what === "mail" && item.status === "fired");
  const goals = items.filter((item) => item.what === "goal");
  return html`<div class="head"><div><h1>${headline(next, zone)}</h1><div class="meta">${next && html`<span class="text"><b>${next.text}</b></span><span>${relative(Date.parse(next.at), now.value)}</span>`}
      ${zone && html`<span>times of the office: ${zone}</span>`}</div></div></div>
    ${timetable.error && html`<${Problem} error=${timetable.error} retry=${timetable.reload} />`}
    <div class="timetable"><div><${Reminders} sent=${sent} reload=${timetable.reload} /><${Days} upcoming=${upcoming} zone=${zone} reload=${timetable.reload} /></div>
    <div><${ScheduledGoals} goals=${goals} zone=${zone} reload=${timetable.reload} /><${Night} night=${night} zone=${zone} reload=${timetable.reload} /></div></div>`;
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
    (item) => html`<${Item} key=${`${item.what}${item.id}${item.at}`} item=${item} zone=${zone} reload=${reload} />`,
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
  return html`<li class="upcoming"><time class="number" datetime=${item.at}>${late && item.what === "job" ? "now" : sayHour(Date.parse(item.at), zone)}</time>
    <span class="what"><span class="text">${item.what === "deadline" ? html`<a href=${at`/goals/${item.id}`}>${item.text}</a>` : item.text}</span>
      <span class="under"><${AgentChip} name=${WHO[item.what]} /><span>${KINDS[item.what]}</span>${item.every && html`<span>${item.every}</span>`}</span></span>
    ${item.what === "mail" && may("submit") && html`<${Actions} id=${item.id} title=${item.text} reload=${reload} />`}</li>`;
}

function Actions({ id, title, reload, done = false }) {
  const act = (run) => async () => {
    const answer = await attempt(run);
    if (answer) toast(answer.text.split("\n")[0]);
    await reload();
  };
  return html`<span class="actions">${done && html`<button type="button" onClick=${act(() => post(at`/timetable/${id}/done`))}>Done<span class="visually-hidden">: ${title}</span></button>`}
    <button type="button" class="plain" onClick=${act(() => post(at`/timetable/${id}/snooze`, { minutes: 60 }))}>1 h later<span class="visually-hidden">: ${title}</span></button>
    <button type="button" class="plain" onClick=${act(() => remove(at`/timetable/${id}`))}>Cancel<span class="visually-hidden">: ${title}</span></button></span>`;
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
    const answer = await attempt(() => post("/timetable", { text }));
    setBusy(false);
    if (!answer) return field.current.focus();
    field.current.value = "";
    toast(answer.text.split("\n")[0]);
    await reload();
  };
  return html`${may("submit") && html`<form class="remind" onSubmit=${add}><label for="remind">Remind me</label><input id="remind" ref=${field} autocomplete="off" maxlength="1000" placeholder="to call Ana tomorrow at 9:00" aria-keyshortcuts="n" />
      <button class="primary" disabled=${busy}>Set</button></form>`}
    ${sent.length > 0 && html`<h2>Sent, and open <small>${plural(sent.length, "reminder")}</small></h2><ul class="panel day">${sent.map((each) => html`<li class="upcoming" key=${each.id}><${Clock} at=${each.at} seconds=${false} />
      <span class="what"><span class="text">${each.text}</span><span class="under"><span>sent <${Ago} at=${each.last_at} /></span></span></span>${may("submit") && html`<${Actions} id=${each.id} title=${each.text} reload=${reload} done />`}</li>`)}</ul>`}`;
}

// The night: its window and its budget, the jobs of its queue and what they wait for; the form for a new one.

import { at, post, remove } from "../api.js";
import { may, now } from "../store.js";
import { ask } from "../ui/dialog.js";
import { html, useRef, useState } from "../ui/html.js";
import { Ago, Clock } from "../ui/time.js";
import { attempt, toast } from "../ui/toast.js";
import { sayTime } from "./timetable_times.js";

const STATES = { waiting: ["○", "waits"], running: ["◐", "at work"], ended: ["✓", "ended"], refused: ["✕", "refused"] };

export function Night({ night, zone, reload }) {
  const { counts = {}, jobs } = night;
  const told = ["waiting", "running", "ended", "refused"].filter((state) => counts[state]).map((state) => `${counts[state]} ${state === "waiting" && counts[state] > 1 ? "wait" : STATES[state][1]}`);
  return html`<section class="night panel" aria-label="The night's queue"><h2>The night's queue <small>${told.join(", ") || "empty"}</small></h2>
    <p class="soft">${sayWindow(night, zone)} ${sayUsed(night)}</p>
    ${night.held && html`<p class="warn">Nothing begins now: ${night.held}.</p>`}
    ${!night.reachable && html`<p class="soft">Its folder is not on the gateway's machine, or no job was ever dropped: <code>${night.folder}</code></p>`}
    ${night.reachable && !jobs.length && html`<p class="soft">Add a job below, or drop one as a file into <code>${night.folder}</code>.</p>`}
    <ul>${jobs.map((job) => html`<${Job} key=${`${job.state}${job.id}`} job=${job} reload=${reload} />`)}</ul>
    ${may("submit") && html`<${NewJob} night=${night} reload=${reload} />`}</section>`;
}

function sayWindow(night, zone) {
  if (!night.window) return "No night is set: a job begins as soon as its time has come, or at once if it names none.";
  const when = sayTime(Date.parse(night.is_night ? night.ends_at : night.begins_at), now.value, zone);
  return night.is_night ? `It is night until ${when}.` : `Jobs wait for the night, ${night.window}. It begins ${when}.`;
}

function sayUsed({ tokens, cost, token_limit: most, cost_limit: limit, is_night: isNight }) {
  const budget = [most && `${most.toLocaleString("en")} tokens`, limit && `$${limit.toFixed(2)}`].filter(Boolean).join(" and ");
  if (!tokens && !budget) return "";
  return `${isNight ? "Used in it" : "Used in the last one"}: ${tokens.toLocaleString("en")} tokens${cost ? `, $${cost.toFixed(2)}` : ""}${budget ? ` of ${budget}` : ""}.`;
}

function Job({ job, reload }) {
  const [symbol, word] = job.outcome === "failed" ? ["✕", "failed"] : STATES[job.state];
  const bad = job.state === "refused" || job.outcome === "failed";
  return html`<li><span class=${bad ? "bad" : job.state === "ended" ? "ok" : "soft"} aria-hidden="true">${symbol}</span><span class="what"><span class="text">${job.task || job.reason || job.id}</span>
    <span class="under"><span>${word}</span><code>${job.id}</code>${job.priority && html`<span>${job.priority}</span>`}${job.state === "waiting" && job.run_at ? html`<span>from <${Clock} at=${job.run_at} seconds=${false} /></span>` : html`<${Ago} at=${job.at} />`}</span>
    ${job.task && job.reason && html`<span class="soft">${job.reason}</span>`}
    ${may("submit") && (job.state === "waiting" || job.state === "running") && html`<${Actions} job=${job} reload=${reload} />`}</span></li>`;
}

function Actions({ job, reload }) {
  const act = async (run, done) => {
    await attempt(run, done);
    await reload();
  };
  const drop = async () => {
    const running = job.state === "running" ? " It is at work, and ends." : "";
    const sure = await ask({ title: "Remove the job?", text: `${job.task}${running}`, yes: "Remove", danger: true });
    if (sure) await act(() => remove(at`/timetable/${job.id}`), "Removed");
  };
  const named = html`<span class="visually-hidden">: ${job.task}</span>`;
  return html`<span class="actions">${job.state === "waiting" && html`<button type="button" class="plain" onClick=${() => act(() => post(at`/timetable/${job.id}/run`), "It has begun")}>Begin now${named}</button>`}
    <button type="button" class="plain" onClick=${drop}>Remove${named}</button></span>`;
}

function NewJob({ night, reload }) {
  const field = useRef(null);
  const [busy, setBusy] = useState(false);
  const add = async (event) => {
    event.preventDefault();
    setBusy(true);
    const answer = await attempt(() => post("/timetable", { what: "job", text: field.current.value.trim() }));
    setBusy(false);
    if (!answer) return field.current.focus();
    field.current.value = "";
    toast(answer.text.split(" To stop it")[0]);
    return reload();
  };
  return html`<form class="plan" onSubmit=${add}><label>${night.window ? "Tonight" : "Job"}<input ref=${field} required autocomplete="off" maxlength="20000" placeholder="Run the tests of ~/src/shop" /></label><button class="primary" disabled=${busy}>Add</button></form>`;
}

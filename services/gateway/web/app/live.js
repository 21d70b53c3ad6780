// What happens in the office, as it happens. One stream for all tabs of a browser: the tab that holds the lock reads it and
// hands every event to the others, so that seven tabs take one connection. An event's position counts the messages of the log;
// after a lost connection the stream goes on after the last one seen, so nothing is missed and nothing comes twice.

import { batch, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { address, get } from "./api.js";
import { signedOut } from "./store.js";

const NAME = "mailroom.events"; // of the lock and of the channel
const FLUSH = 100; // ms for which events are collected before they are handed on
const FLUSH_MOST = 500;
const HELD_MOST = 5000; // events kept while paused; after more of them the views read again
const RETRY = [500, 1000, 2000, 5000];
const SILENCE = 40000; // ms without a sign of life after which the connection counts as lost; the gateway gives one each 15 s
const SETTLE = 400; // ms without an event after which one has caught up

/** {state: "starting" | "live" | "catching" | "lost", since: ms of the loss} */
export const connection = signal({ state: "starting", since: 0 });
export const paused = signal(false);
/** How many events wait while paused. */
export const held = signal(0);
/** The position of the last event that arrived: how many messages the log has. */
export const last = signal(0);

/** What models are writing for tasks, by the ids of these: {agent, goal_id, text, at}. */
export const thoughts = signal({});

/** Why the office cannot show what is new, such as a full disk; empty if it can. */
export const problem = signal("");

const listeners = new Set();
const resets = new Set();
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel(NAME) : null;
const reader = { leads: false, cursor: "", outgoing: [], timer: 0, settling: 0 };
let kept = [];

/** Call with every batch of new events, oldest first: [{message, goal, at}]; returns what ends it. */
export function onEvents(callback) {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

/** Call if events were skipped, so that a view reads its page again; returns what ends it. */
export function onReset(callback) {
  resets.add(callback);
  return () => resets.delete(callback);
}

/** Get new events as long as the component is shown. */
export function useEvents(callback) {
  const current = useRef(callback);
  current.current = callback;
  useEffect(() => onEvents((events) => current.current(events)), []);
}

/** Stop handing events to the views of this tab, or hand them what has come since. */
export function togglePause() {
  paused.value = !paused.value;
  if (paused.value) return;
  const events = kept;
  const skipped = held.value > events.length;
  kept = [];
  held.value = 0;
  if (skipped) resets.forEach((callback) => callback());
  else dispatch(events);
}

function receive(events) {
  const fresh = events.filter((event) => event.at > last.value);
  if (!fresh.length) return;
  last.value = fresh[fresh.length - 1].at;
  if (!paused.value) return dispatch(fresh);
  held.value += fresh.length;
  kept = held.value > HELD_MOST ? [] : [...kept, ...fresh];
}

function dispatch(events) {
  if (events.length) batch(() => listeners.forEach((callback) => callback(events)));
}

function setConnection(state) {
  const before = connection.value;
  if (before.state === state) return;
  connection.value = { state, since: ["lost", "catching"].includes(state) ? before.since || Date.now() : 0 };
}

/** How many messages a cursor such as "1200-34" stands after. */
export function countOf(cursor) {
  const [office, memory] = (cursor || "0-0").split("-").map(Number);
  return office + memory;
}

// --- the tab that reads the stream ------------------------------------------------------------------

function flush() {
  clearTimeout(reader.timer);
  reader.timer = 0;
  const events = reader.outgoing;
  reader.outgoing = [];
  if (!events.length) return;
  channel?.postMessage({ events, cursor: reader.cursor });
  receive(events);
}

function collect(message) {
  const at = countOf(message.lastEventId);
  if (at <= countOf(reader.cursor)) return;
  reader.cursor = message.lastEventId;
  reader.outgoing.push({ ...JSON.parse(message.data), at });
  // A hidden tab's timers are slowed down, and others may be watching.
  if (document.hidden || reader.outgoing.length >= FLUSH_MOST) flush();
  else reader.timer ||= setTimeout(flush, FLUSH);
}

function announce(state) {
  flush();
  setConnection(state);
  channel?.postMessage({ state });
}

function noteThoughts(said) {
  const { [said.task_id]: _, ...others } = thoughts.value;
  thoughts.value = said.text ? { ...others, [said.task_id]: { ...said, at: Date.now() } } : others;
}

function noteProblem(event) {
  problem.value = JSON.parse(event.data).problem;
  channel?.postMessage({ problem: problem.value });
}

function settle() {
  if (connection.value.state === "live") return;
  clearTimeout(reader.settling);
  reader.settling = setTimeout(() => announce("live"), SETTLE);
}

/** Read the stream until it breaks; resolves then, with whether it had been open. */
function readStream() {
  return new Promise((resolve) => {
    const source = new EventSource(address("/events", { after: reader.cursor }));
    let opened = false;
    let watch = 0;
    const end = () => {
      clearTimeout(watch);
      clearTimeout(reader.settling);
      source.close();
      resolve(opened);
    };
    const heard = () => {
      clearTimeout(watch);
      watch = setTimeout(end, SILENCE);
      settle();
    };
    source.addEventListener("open", (event) => {
      // The connection's own "open" has no data; the gateway's first event has, and says where the stream begins.
      if (event.data === undefined) return;
      opened = true;
      if (!reader.cursor) channel?.postMessage({ cursor: event.lastEventId });
      reader.cursor ||= event.lastEventId;
      last.value ||= countOf(event.lastEventId);
      announce(connection.value.state === "lost" ? "catching" : "live");
      noteProblem(event);
      heard();
    });
    source.onmessage = (message) => {
      collect(message);
      heard();
    };
    source.addEventListener("thinking", (event) => {
      const said = JSON.parse(event.data);
      channel?.postMessage({ thoughts: said });
      noteThoughts(said);
    });
    source.addEventListener("alive", (event) => {
      noteProblem(event);
      heard();
    });
    source.onerror = end;
    heard();
  });
}

async function lead() {
  reader.leads = true;
  reader.cursor = await askOthers();
  for (let failures = 0; !signedOut.value; ) {
    const opened = await readStream();
    if (leaving) return;
    announce("lost");
    // A stream that is refused does not say why: the session may have ended.
    if (!opened) await get("/session").catch(() => null);
    failures = opened ? 0 : failures + 1;
    await wait(RETRY[Math.min(failures, RETRY.length - 1)]);
  }
}

/** The lowest cursor that a tab has seen, so that a change of the reading tab skips nothing for any of them. */
async function askOthers() {
  const seen = [reader.cursor].filter(Boolean);
  const answer = ({ data }) => data.seen && seen.push(data.seen);
  channel?.addEventListener("message", answer);
  channel?.postMessage({ ask: true });
  if (channel) await wait(120);
  channel?.removeEventListener("message", answer);
  return seen.sort((one, other) => countOf(one) - countOf(other))[0] || "";
}

function wait(time) {
  return new Promise((resolve) => setTimeout(resolve, time));
}

// --- all tabs -----------------------------------------------------------------------------------------

let leaving = false;

function hear({ data }) {
  if (data.ask && reader.cursor && !reader.leads) channel.postMessage({ seen: reader.cursor });
  if (data.hello && reader.leads) channel.postMessage({ state: connection.value.state, cursor: reader.cursor, problem: problem.value });
  if (reader.leads) return;
  if (data.cursor) reader.cursor = data.cursor;
  if (data.cursor && !data.events) last.value ||= countOf(data.cursor);
  if (data.state) setConnection(data.state);
  if (data.problem !== undefined) problem.value = data.problem;
  if (data.thoughts) noteThoughts(data.thoughts);
  if (data.events) receive(data.events);
}

/**
 * Begin: read the stream, or hear of it from the tab that does. `position` is where the log was before the first view was read:
 * from there on, for what happens between that and the opening of the stream would be missed.
 */
export function startLive(position = "") {
  reader.cursor ||= position;
  addEventListener("pagehide", () => (leaving = true));
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  channel?.addEventListener("message", hear);
  channel?.postMessage({ hello: true });
  if (navigator.locks) navigator.locks.request(NAME, lead);
  else lead();
}

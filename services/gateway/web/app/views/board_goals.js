// The goals that the board shows: read in pages, kept up to date by events; new ones wait until one wants to see them.

import { get } from "../api.js";
import { onEvents, onReset } from "../live.js";
import { useEffect, useRef, useState } from "../ui/html.js";

const OPEN = ["pending", "in_progress", "review"];
const ENDED = ["completed", "failed", "timeout", "cancelled"];
const PAGE = 50;
const MOST_OPEN = 200;
const PAUSE = 1200; // ms for which changes are collected before the goals are read again
const NOTHING = { page: null, known: new Map(), next: 0, fresh: [], added: 0, error: null };

/** {shown, fresh, page, next, added, error, reload, more, showFresh, expect} for a mode and filters. */
export function useGoals(mode, filters) {
  const [state, setState] = useState(NOTHING);
  const wanted = `${mode} ${JSON.stringify(filters)}`;
  const current = useRef(null);
  const expected = useRef(new Set());
  current.current = { mode, filters, wanted, state };

  const read = async ({ first = false } = {}) => {
    const asked = current.current;
    try {
      const page = await readPage(asked.mode, asked.filters);
      if (current.current.wanted === asked.wanted) setState((before) => merge(first ? NOTHING : before, page, expected.current));
    } catch (error) {
      setState((before) => ({ ...before, error }));
    }
  };
  const reload = () => read();
  const more = async () => {
    const { next } = current.current.state;
    if (mode === "board" || !next || current.current.loading === next) return;
    current.current.loading = next;
    const page = await get("/goals", { ...filters, before: next, limit: PAGE }).catch(() => null);
    if (page) setState((before) => (before.next === next ? { ...before, known: add(before.known, page.goals), next: page.next } : before));
  };
  useEffect(() => void read({ first: true }), [wanted]);
  useChanges(reload, (goal) => setState((before) => change(before, goal)));
  const shown = [...state.known.values()].filter((goal) => !state.fresh.includes(goal.goal_id)).sort(byTime);
  const showFresh = () => setState((before) => ({ ...before, fresh: [], added: before.added + before.fresh.length }));
  const expect = (id) => {
    expected.current.add(id);
    setState((before) => ({ ...before, fresh: before.fresh.filter((each) => each !== id) }));
  };
  return { ...state, shown, reload, more, showFresh, expect };
}

/** The latest goals; for the board all open ones and the latest that ended. */
async function readPage(mode, filters) {
  if (mode !== "board") return get("/goals", { ...filters, limit: PAGE });
  const [open, ended] = await Promise.all([get("/goals", { ...filters, status: OPEN, limit: MOST_OPEN }), get("/goals", { ...filters, status: ENDED, limit: PAGE })]);
  return { ...open, goals: [...open.goals, ...ended.goals], next: ended.next };
}

/** What is shown after a page was read again: known goals change in place, unknown ones wait as fresh. */
function merge(before, page, expected) {
  const first = before.page === null;
  const fresh = first || before.known.size === 0 ? [] : page.goals.filter((goal) => !before.known.has(goal.goal_id) && isNew(goal, before) && !expected.has(goal.goal_id)).map((goal) => goal.goal_id);
  const arrived = first ? 0 : page.goals.filter((goal) => !before.known.has(goal.goal_id) && expected.has(goal.goal_id)).length;
  return { ...before, page, error: null, known: add(before.known, page.goals), next: first ? page.next : before.next, fresh: [...before.fresh, ...fresh], added: before.added + arrived };
}

/** Whether a goal came after the latest that is known; an older one is only further down. */
function isNew(goal, { known }) {
  for (const each of known.values()) if (each.submitted_at > goal.submitted_at) return false;
  return true;
}

function add(known, goals) {
  const all = new Map(known);
  for (const goal of goals) all.set(goal.goal_id, goal);
  return all;
}

/** A known goal as its record (of an event) says. */
function change(state, record) {
  const known = state.known.get(record.goal_id);
  if (!known) return state;
  const done = record.tasks.filter((task) => task.status === "completed").length;
  const ended = ENDED.includes(record.status);
  const changed = {
    ...known, status: record.status, outcome: record.outcome || "", ended_at: record.ended_at || "",
    tasks_done: done, tasks_all: record.tasks.length, state: ended ? "ended" : record.status === "review" ? "review" : known.state === "planning" && record.tasks.length ? "working" : known.state,
    workers: ended ? [] : known.workers, seconds: ended ? (Date.parse(record.ended_at) - Date.parse(known.submitted_at)) / 1000 : known.seconds,
  };
  return { ...state, known: new Map(state.known).set(record.goal_id, changed) };
}

function byTime(one, other) {
  return one.submitted_at < other.submitted_at ? 1 : one.submitted_at > other.submitted_at ? -1 : 0;
}

/** Apply records of goals at once, and read again (at most once in PAUSE) what records do not say. */
function useChanges(reload, apply) {
  const current = useRef(null);
  current.current = { reload, apply };
  useEffect(() => {
    let due = 0;
    const later = () => {
      due ||= setTimeout(() => {
        due = 0;
        current.current.reload();
      }, PAUSE);
    };
    const hear = (events) => {
      const records = new Map(events.filter((event) => event.goal).map((event) => [event.goal.goal_id, event.goal]));
      records.forEach((goal) => current.current.apply(goal));
      if (events.some(({ message }) => /^(state\.goal\.|approval\.)/.test(message.subject))) later();
    };
    const ends = [onEvents(hear), onReset(later)];
    return () => {
      clearTimeout(due);
      ends.forEach((end) => end());
    };
  }, []);
}

// Traffic: every message as the broker stored it, live, filtered; each opens down to its JSON. And the proof that it is whole.

import { address, get } from "../api.js";
import { useKeys } from "../keyboard.js";
import { countOf, onReset, useEvents } from "../live.js";
import { setQuery } from "../router.js";
import { Empty, Loading, Problem } from "../ui/empty.js";
import { Fresh } from "../ui/fresh.js";
import { html, useEffect, useMemo, useRef, useState } from "../ui/html.js";
import { Rows } from "../ui/rows.js";
import { SavedFilters } from "../ui/saved.js";
import { Message } from "./traffic_message.js";
import { Proof } from "./traffic_proof.js";
import { TrafficRow, useNarrow } from "./traffic_row.js";

const PAGE = 200; // messages of one request
const KEPT = 4000; // messages in hand while new ones come in; older ones are read again when one scrolls there
const INSERT = 150; // ms for which new messages are collected before the list grows
const BUSY = { rows: 20, pause: 700 }; // the same after so many came at once: nobody reads more at a time
const FILTERS = ["agent", "subject", "goal", "text"];

export default function Traffic({ query }) {
  const filter = useMemo(() => Object.fromEntries(FILTERS.map((name) => [name, query[name] || ""])), FILTERS.map((name) => query[name]));
  const log = useLog(filter, Boolean(query.message));
  const selected = log.rows.findIndex((row) => nameOf(row) === query.message);
  const narrow = useNarrow();
  const select = (index) => setQuery({ message: index < 0 ? "" : nameOf(log.rows[index]) });
  useKeys({ e: { label: "export as JSON lines", run: () => location.assign(exportAddress(filter)) } });
  return html`<div class="head"><div><${Proof} total=${log.total} behind=${log.behind} /></div>
      <div class="actions"><a class="button" href=${exportAddress(filter)} download>Export <kbd aria-hidden="true">e</kbd></a></div></div>
    <${Filters} filter=${filter} />
    <div class=${query.message ? "split" : "split closed"}><div>
      <${Fresh} number=${log.fresh} what=${log.fresh === 1 ? "new message" : "new messages"} onShow=${log.showFresh} />
      <${Stream} log=${log} narrow=${narrow} selected=${selected} onSelect=${select} filtered=${FILTERS.some((name) => filter[name])} /></div>
      ${query.message && html`<${Message} name=${query.message} onClose=${() => select(-1)} />`}</div>`;
}

function Stream({ log, narrow, selected, onSelect, filtered }) {
  if (log.error && !log.rows.length) return html`<${Problem} error=${log.error} retry=${log.reload} />`;
  if (!log.rows.length && log.loading) return html`<${Loading} what="messages" />`;
  if (!log.rows.length && filtered) return html`<${Empty} title="No message fits" action=${html`<a href="/traffic">Show all messages</a>`}>New ones that fit appear here as they are stored.<//>`;
  if (!log.rows.length) return html`<${Empty} title="Nothing was sent yet" action=${html`<a href="/goals?new=1">Submit your first goal</a>`}>Every message between people and agents appears here, in the order the broker stored it.<//>`;
  return html`<${Rows} count=${log.rows.length} height=${narrow ? 58 : 34} label="Messages, the latest first" selected=${selected} onSelect=${onSelect} onOpen=${onSelect}
      keyOf=${(index) => nameOf(log.rows[index])} added=${log.added} onEnd=${log.more} render=${(index) => html`<${TrafficRow} row=${log.rows[index]} narrow=${narrow} />`} />
    ${log.error && html`<${Problem} error=${log.error} retry=${log.more} />`}`;
}

function Filters({ filter }) {
  const [values, setValues] = useState(filter);
  const timer = useRef(0);
  useEffect(() => setValues(filter), [filter]);
  const change = (name) => (event) => {
    const next = { ...values, [name]: event.target.value };
    setValues(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ ...next, message: "" }), 250);
  };
  const field = (name, label, hint) => html`<label><span>${label}</span><input type="search" name=${name} value=${values[name]} placeholder=${hint}
      data-filter=${name === "text" ? true : undefined} spellcheck="false" autocomplete="off" onInput=${change(name)} /></label>`;
  return html`<form class="filters" role="search" aria-label="Filter messages" onSubmit=${(event) => event.preventDefault()}>
    ${field("text", "Words", "words in it")}${field("agent", "Agent", "engineer")}${field("subject", "Subject", "mail.*.user")}${field("goal", "Goal", "its id")}<${SavedFilters} view="traffic" filter=${filter} /></form>`;
}

function nameOf(row) {
  return `${row.stream}:${row.seq}`;
}

function exportAddress(filter) {
  return address("/export", filter).href;
}

/**
 * The messages that a filter admits, latest first, a window at a time: {rows, total, behind, fresh, added, more, showFresh, …}.
 * While `still` holds, new ones are only counted, so that what one reads does not move.
 */
function useLog(filter, still) {
  const [state, setState] = useState({ rows: [], read: 0, total: 0, behind: 0, end: false, loading: true, error: null, added: 0 });
  const [fresh, setFresh] = useState([]);
  const asked = useRef(null);
  const matches = useMemo(() => matcher(filter), [filter]);
  const load = async (before) => {
    if (asked.current?.before === before) return;
    asked.current?.control.abort();
    const control = new AbortController();
    asked.current = { before, control };
    try {
      const page = await get("/messages", { ...filter, before, limit: PAGE }, { signal: control.signal });
      setState((now) => merge(now, page, before));
    } catch (error) {
      if (error.name !== "AbortError") setState((now) => ({ ...now, error, loading: false }));
    } finally {
      if (asked.current?.control === control) asked.current = null;
    }
  };
  const reload = () => {
    setFresh([]);
    setState((now) => ({ ...now, rows: [], read: 0, end: false, loading: true, error: null }));
    load("");
  };
  useEffect(() => {
    reload();
    return () => asked.current?.control.abort();
  }, [filter]);
  useEffect(() => onReset(reload), [filter]);
  const put = (rows) => setState((now) => insert(now, rows));
  useCollected((rows) => {
    const found = rows.filter(matches).reverse();
    const stored = (now) => ({ ...now, total: now.total + rows.length });
    setState((now) => (still ? stored(now) : insert(stored(now), found)));
    if (still && found.length) setFresh((now) => [...found, ...now].slice(0, KEPT));
  });
  const showFresh = () => {
    put(fresh);
    setFresh([]);
  };
  useEffect(() => {
    if (!still && fresh.length) showFresh();
  }, [still]);
  const more = () => !state.end && state.rows.length && load(state.rows[state.rows.length - 1].position);
  return { ...state, fresh: fresh.length, reload, more, showFresh };
}

/** With a page that was read. The first one may arrive after newer messages did: these stay above it. */
function merge(now, page, before) {
  const known = new Set((before ? now.rows : page.messages).map(nameOf));
  const read = before ? now.read : countOf(page.position);
  const unknown = (rows) => rows.filter((row) => !known.has(nameOf(row)));
  const rows = before ? [...now.rows, ...unknown(page.messages)] : [...unknown(now.rows).filter((row) => countOf(row.position) > read), ...page.messages];
  return { ...now, rows, read, total: page.total, behind: page.behind, end: !page.next, loading: false, error: null };
}

/** With new messages, latest first, but those that the first page had. */
function insert(now, rows) {
  const known = new Set(now.rows.slice(0, rows.length + PAGE).map(nameOf));
  const news = rows.filter((row) => countOf(row.position) > now.read && !known.has(nameOf(row)));
  const all = [...news, ...now.rows];
  const kept = Math.max(KEPT, now.rows.length); // never less than one has scrolled through
  return { ...now, rows: all.slice(0, kept), end: now.end && all.length <= kept, added: now.added + news.length };
}

/** Call with new messages, oldest first, at most some times a second. */
function useCollected(callback) {
  const waiting = useRef({ rows: [], timer: 0, pause: INSERT });
  const current = useRef(callback);
  current.current = callback;
  useEvents((events) => {
    const { rows } = waiting.current;
    rows.push(...events.map((event) => event.message));
    waiting.current.timer ||= setTimeout(() => {
      waiting.current = { rows: [], timer: 0, pause: rows.length > BUSY.rows ? BUSY.pause : INSERT };
      current.current(rows);
    }, waiting.current.pause);
  });
  useEffect(() => () => clearTimeout(waiting.current.timer), []);
}

/** Whether a message that has just come is admitted, as the office decides it for stored ones. */
function matcher({ agent, subject, goal, text }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const escaped = subject.replace(/>$/, "").replace(/[.+?^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*");
  const pattern = new RegExp(`^${escaped}`);
  return (row) =>
    (!agent || row.sender === agent || row.recipient === agent) &&
    (!goal || row.goal_id === goal) &&
    pattern.test(row.subject) &&
    words.every((word) => `${row.text || ""} ${row.goal_id || ""} ${row.task_id || ""}`.toLowerCase().includes(word));
}

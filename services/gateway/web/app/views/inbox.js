// Inbox: everything that waits for a person, each with what exactly, why, and what follows; one key answers it.

import { get } from "../api.js";
import { focusDrawn, useKeys } from "../keyboard.js";
import { notifying, toggleNotifications } from "../notify.js";
import { may, now, remember, remembered, waiting as waitingCount } from "../store.js";
import { Empty, Loading, Problem } from "../ui/empty.js";
import { plural } from "../ui/format.js";
import { html, useEffect, useMemo, useRef, useState } from "../ui/html.js";
import { useLiveResource } from "../ui/resource.js";
import { Ago } from "../ui/time.js";
import { concernsInbox } from "../waiting.js";
import { Answered } from "./inbox_answered.js";
import { Item } from "./inbox_item.js";

const LATER = 60 * 60 * 1000; // ms for which "later" puts an item aside
const SHOWN = 100; // items before "show all"

export default function Inbox() {
  const inbox = useLiveResource((signal) => get("/inbox", {}, { signal }), [], concernsInbox);
  const [later, putAside] = useLater();
  const [selected, setSelected] = useState("");
  const [all, setAll] = useState(false);
  const items = useMemo(() => [...(inbox.data?.waiting || [])].sort(byUrgency), [inbox.data]);
  const open = items.filter((item) => !(later[item.id] > now.value));
  const aside = items.filter((item) => later[item.id] > now.value);
  const current = open.find((item) => item.id === selected) || open[0];
  useEffect(() => {
    if (inbox.data) waitingCount.value = items.length;
  }, [items.length]);
  const list = useRef(null);
  const move = (step) => {
    const index = Math.max(0, Math.min(open.length - 1, open.indexOf(current) + step));
    if (!open.length) return;
    setSelected(open[index].id);
    focusDrawn(() => list.current?.querySelector("[aria-current=true]"));
  };
  useKeys({ j: { label: "next", run: () => move(1) }, k: { label: "before", run: () => move(-1) } });
  const done = async (item) => {
    const next = open[open.indexOf(item) + 1] || open[open.indexOf(item) - 1];
    setSelected(next?.id || "");
    await inbox.reload();
  };
  if (!inbox.data && inbox.error) return html`<h1>Inbox</h1><${Problem} error=${inbox.error} retry=${inbox.reload} />`;
  if (!inbox.data) return html`<h1>Inbox</h1><${Loading} what="what waits" />`;
  const shown = all ? open : open.slice(0, SHOWN);
  return html`<div class="head"><div><h1 aria-live="polite">${headline(open.length)}</h1><${Summary} open=${open} aside=${aside} /></div></div>
    ${inbox.error && html`<${Problem} error=${inbox.error} retry=${inbox.reload} />`}
    ${!may("submit") && open.length > 0 && html`<p class="soft">You may read this, and not answer: that needs the scope <code>submit</code>.</p>`}
    <div class="inbox" ref=${list}>${shown.map((item) => html`<${Item} key=${item.id} item=${item} current=${item === current}
      onSelect=${() => setSelected(item.id)} onLater=${() => putAside(item.id, Date.now() + LATER)} onDone=${() => done(item)} />`)}</div>
    ${open.length > shown.length && html`<p><button type="button" onClick=${() => setAll(true)}>Show all ${open.length}</button></p>`}
    ${!open.length && html`<${Nothing} aside=${aside.length} answered=${inbox.data.answered.length} />`}
    <${Aside} items=${aside} onBack=${(item) => putAside(item.id, 0)} />
    <${Answered} items=${inbox.data.answered} />`;
}

/** Requests for approval expire, so they come first; then questions; what failed can wait. */
function byUrgency(one, other) {
  const urgent = (item) => ({ approval: 0, question: 1 })[item.kind] ?? 2;
  return urgent(one) - urgent(other) || (one.since < other.since ? -1 : 1);
}

function headline(number) {
  if (!number) return "Nothing waits for you";
  return number === 1 ? "1 thing waits for you" : `${plural(number, "thing")} wait for you`;
}

function Summary({ open, aside }) {
  const oldest = open.reduce((first, item) => (!first || item.since < first ? item.since : first), "");
  if (!oldest && !aside.length) return null;
  return html`<div class="meta">${oldest && html`<span>the oldest came <b><${Ago} at=${oldest} /></b></span>`}
    ${aside.length > 0 && html`<span>${aside.length} put aside</span>`}
    ${!notifying.value && html`<button type="button" class="plain" onClick=${toggleNotifications}>Tell me in this browser when something waits</button>`}</div>`;
}

function Nothing({ aside, answered }) {
  if (aside || answered) return html`<${Empty} title="All answered" action=${html`<a href="/goals">See what is at work</a>`}>Approvals, questions, messages that failed and goals that failed appear here.<//>`;
  return html`<${Empty} title="Here appears what needs you" action=${html`<a href="/goals?new=1">Submit a goal <kbd>n</kbd></a>`}
    >If an agent wants to run a risky command, reach the network or has a question, it asks here and waits. Nobody has asked yet.<//>`;
}

function Aside({ items, onBack }) {
  if (!items.length) return null;
  return html`<details class="fold"><summary>${plural(items.length, "thing")} put aside</summary><ul class="plainlist">${items.map(
    (item) => html`<li key=${item.id}><span class="text">${item.title}</span><button type="button" class="plain" onClick=${() => onBack(item)}>Show again</button></li>`,
  )}</ul></details>`;
}

/** What was put aside until when, kept in this browser. */
function useLater() {
  const [later, setLater] = useState(() => readLater());
  const put = (id, until) => {
    const kept = Object.fromEntries(Object.entries({ ...later, [id]: until }).filter(([, time]) => time > Date.now()));
    setLater(kept);
    remember("later", JSON.stringify(kept));
  };
  return [later, put];
}

function readLater() {
  try {
    return JSON.parse(remembered("later")) || {};
  } catch {
    return {};
  }
}

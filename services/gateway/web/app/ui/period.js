// A period: chosen by a button or as a range of days, kept in the address.

import { setQuery } from "../router.js";
import { html, useMemo } from "./html.js";

const DAY = 86400000;
const PERIODS = [["today", "Today"], ["24h", "24 h"], ["7d", "7 days"], ["30d", "30 days"], ["own", "Own range"]];
const SPANS = { "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY };

/** The name of the period in the address. */
function nameOf(query) {
  return PERIODS.some(([name]) => name === query.period) ? query.period : "30d";
}

/** {since, until} in ISO 8601 for the gateway, the same until another period is chosen; until is empty for now. */
export function usePeriod(query) {
  const name = nameOf(query);
  return useMemo(() => {
    if (name === "today") return { since: new Date(new Date().setHours(0, 0, 0, 0)).toISOString(), until: "" };
    if (name !== "own") return { since: new Date(Date.now() - SPANS[name]).toISOString(), until: "" };
    const until = midnight(query.until, 1);
    const since = midnight(query.since);
    return { since: since && since.toISOString(), until: until && (!since || until > since) ? until.toISOString() : "" };
  }, [name, query.since, query.until]);
}

/** Where a day begins here, or one that is so many days later; "" for what is no day. */
function midnight(day, later = 0) {
  const date = new Date(`${day}T00:00:00`);
  if (Number.isNaN(date.getTime())) return "";
  date.setDate(date.getDate() + later);
  return date;
}

export function PeriodChoice({ query }) {
  const chosen = nameOf(query);
  const day = (name, label) => html`<label>${label} <input type="date" name=${name} value=${query[name] || ""} onChange=${(event) => setQuery({ [name]: event.target.value })} /></label>`;
  return html`<div class="period"><div class="modes" role="group" aria-label="Period">${PERIODS.map(
    ([name, word]) => html`<button type="button" key=${name} aria-pressed=${String(name === chosen)} onClick=${() => setQuery({ period: name === "30d" ? "" : name, since: "", until: "" })}>${word}</button>`,
  )}</div>${chosen === "own" && html`${day("since", "from")}${day("until", "to")}`}</div>`;
}

const SHOWN = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const SHOWN_DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** A period as text: days, or times where it does not begin and end with a day. */
export function periodText(since, until) {
  const shown = (text, last) => {
    const date = new Date(text);
    if (date.getHours() || date.getMinutes()) return SHOWN.format(date);
    return SHOWN_DAY.format(last ? new Date(date - 1) : date);
  };
  return [since && `from ${shown(since)}`, until && `to ${shown(until, true)}`].filter(Boolean).join(" ");
}

// Times: how long ago, with the exact time to be read; spans from a start to an end or to now.

import { now } from "../store.js";
import { clock, fullTime, relative, span } from "./format.js";
import { html } from "./html.js";

/** How long ago (or how soon) `at` (ISO 8601) is. */
export function Ago({ at }) {
  const time = Date.parse(at);
  if (Number.isNaN(time)) return null;
  return html`<time datetime=${at} title=${fullTime(time)}>${relative(time, now.value)}</time>`;
}

/** The time of day of `at`. */
export function Clock({ at, seconds = true }) {
  const time = Date.parse(at);
  if (Number.isNaN(time)) return null;
  return html`<time class="number" datetime=${at} title=${fullTime(time)}>${clock(time, { seconds })}</time>`;
}

/** The time from `from` to `to`; to now, and counting, if there is no `to`. */
export function Took({ from, to = "" }) {
  const start = Date.parse(from);
  if (Number.isNaN(start)) return null;
  const end = to ? Date.parse(to) : now.value;
  return html`<span class="number">${span(Math.max(0, end - start) / 1000)}</span>`;
}

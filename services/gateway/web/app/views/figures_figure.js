// One figure: its value beside its target, its course as a line, what was found and what is counted.

import { count, dollars, span } from "../ui/format.js";
import { html } from "../ui/html.js";

const WIDTH = 260;
const HEIGHT = 56;
const EDGE = 4;

/** A value of a figure with its unit. */
export function amount(value, unit) {
  if (value === null || value === undefined) return "no data";
  if (unit === "seconds") return value < 0.1 ? `${Math.round(value * 1000)} ms` : span(value);
  if (unit === "share") return `${Math.floor(value * 1000) / 10}%`;
  if (unit === "score") return value.toFixed(2);
  if (unit === "dollars") return dollars(value);
  return count(Math.round(value));
}

const OF_MEMORY = "recall"; // measured on memory: no goal is counted

export function Figure({ figure, since, until }) {
  const known = figure.value !== null;
  const counts = known && figure.name !== OF_MEMORY;
  const goals = `/goals?${new URLSearchParams({ view: "list", figure: figure.name, since, until })}`;
  return html`<article class="figure" aria-label=${figure.title}><h3>${counts ? html`<a href=${goals} title="The goals that it counts">${figure.title}</a>` : figure.title}</h3>
    <p class="value"><span class=${known ? "number" : "none"}>${amount(figure.value, figure.unit)}</span>${figure.target !== null && html`<${Target} figure=${figure} />`}</p>
    <${Course} figure=${figure} />
    <p class="detail">${figure.detail}</p><p class="counted">${figure.counted}</p></article>`;
}

function Target({ figure }) {
  if (figure.met === null) return html`<span class="target">target: ${figure.target_text}</span>`;
  return html`<span class=${`target ${figure.met ? "met" : "missed"}`}><span aria-hidden="true">${figure.met ? "✓" : "▲"}</span> ${figure.met ? "met" : "missed"}: ${figure.target_text}</span>`;
}

/** The course by day, or by hour, as SVG: gaps where there is no data, the target as a dashed line. */
function Course({ figure }) {
  const known = figure.trend.filter((point) => point.value !== null);
  const first = figure.trend[0].day;
  const last = figure.trend[figure.trend.length - 1].day;
  if (!known.length) return html`<div class="course"><svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true"><line x1="0" x2=${WIDTH} y1=${HEIGHT - EDGE} y2=${HEIGHT - EDGE} class="ground" /></svg>
    <span class="days"><span>${short(first)}</span><span>${short(last)}</span></span></div>`;
  const values = known.map((point) => point.value);
  const target = figure.target;
  const top = Math.max(...values, target ?? 0) || 1;
  const x = (index) => EDGE + (index / Math.max(1, figure.trend.length - 1)) * (WIDTH - 2 * EDGE);
  const y = (value) => HEIGHT - EDGE - (value / top) * (HEIGHT - 3 * EDGE);
  const label = `${figure.title}, by ${first.length > 10 ? "hour" : "day"}: ${known.slice(-5).map((point) => `${short(point.day)} ${amount(point.value, figure.unit)}`).join(", ")}`;
  return html`<div class="course"><svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${label}>
      <line x1="0" x2=${WIDTH} y1=${HEIGHT - EDGE} y2=${HEIGHT - EDGE} class="ground" />
      ${target !== null && html`<line x1="0" x2=${WIDTH} y1=${y(target)} y2=${y(target)} class="aim" />`}
      <path d=${pathOf(figure.trend, x, y)} class="line" />
      ${figure.trend.map((point, index) => point.value !== null && html`<path key=${point.day} d=${`M${x(index).toFixed(1)} ${y(point.value).toFixed(1)}h0`} class=${isMissed(figure, point.value) ? "point missed" : "point"}><title>${short(point.day)}: ${amount(point.value, figure.unit)}</title></path>`)}
    </svg><span class="days"><span>${short(first)}</span><span>${short(last)}</span></span></div>`;
}

function pathOf(trend, x, y) {
  let path = "";
  let gap = true;
  trend.forEach((point, index) => {
    if (point.value !== null) path += `${gap ? "M" : "L"}${x(index).toFixed(1)} ${y(point.value).toFixed(1)}`;
    gap = point.value === null;
  });
  return path;
}

function isMissed({ target, good }, value) {
  if (target === null) return false;
  return good === "less" ? value > target : value < target;
}

/** A day, or an hour of UTC, as one reads it here. */
function short(day) {
  if (day.length > 10) return new Date(`${day}:00Z`).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return new Date(`${day}T12:00:00Z`).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

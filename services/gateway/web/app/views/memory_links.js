// Links by type, and what the linker does: its state, and the links it made last, each with why.

import { at, post } from "../api.js";
import { Loading, Problem } from "../ui/empty.js";
import { count, plural, relative } from "../ui/format.js";
import { html } from "../ui/html.js";
import { useResource } from "../ui/resource.js";
import { Ago } from "../ui/time.js";

const SHOWN = 40;
const WORDS = { merged: "merged", superseded: "superseded", judged: "judged by a model", expired: "expired", consolidated: "consolidated" };

export function Links({ version }) {
  const linker = useResource((signal) => post("/memory/linker", { edges: SHOWN }, { signal }), [version]);
  if (linker.error) return html`<${Problem} error=${linker.error} retry=${linker.reload} />`;
  if (!linker.data) return html`<${Loading} what="the links" />`;
  const { edges_by_kind: kinds, made, problem } = linker.data;
  const rows = Object.entries(kinds).map(([relation, rules]) => ({ relation, rules: Object.entries(rules), sum: Object.values(rules).reduce((sum, number) => sum + number, 0) }));
  rows.sort((one, other) => other.sum - one.sum);
  return html`<h2>The linker</h2><p>${state(linker.data)}</p>${problem && html`<p class="bad">${problem}</p>`}
    <h2>By type <small>made without anybody's asking</small></h2>
    ${rows.length ? html`<div class="tablebox"><table><thead><tr><th>Type</th><th class="right">Links</th><th>By which rule</th></tr></thead><tbody>
      ${rows.map(({ relation, rules, sum }) => html`<tr key=${relation}><td>${words(relation)}</td><td class="right number">${count(sum)}</td><td class="soft">${rules.map(([rule, number]) => `${words(rule)} ${count(number)}`).join(", ")}</td></tr>`)}</tbody></table></div>` : html`<p class="soft">None yet.</p>`}
    <h2>Made last</h2>${made.length ? html`<ul class="versions panel">${made.map((edge) => html`<${Made} key=${`${edge.from} ${edge.relation} ${edge.to}`} edge=${edge} />`)}</ul>` : html`<p class="soft">None yet.</p>`}`;
}

/** What the linker has done since memory started, and when. */
function state(linker) {
  if (!linker.rounds) return `It has not run yet; it does every ${linker.interval_seconds} s.`;
  const last = relative(Date.now() - 1000 * linker.seconds_since, Date.now());
  const done = Object.entries(linker).filter(([name, value]) => typeof value === "number" && value > 0 && !["rounds", "seconds_since", "interval_seconds"].includes(name));
  return `${plural(linker.rounds, "round")} since memory started, the last ${last}, one every ${linker.interval_seconds} s${done.length ? `: ${done.map(([name, value]) => `${count(value)} ${WORDS[name] || words(name)}`).join(", ")}` : ""}.`;
}

function words(name) {
  return name.replaceAll("_", " ");
}

function Made({ edge }) {
  const why = [edge.rule && words(edge.rule), edge.score !== undefined && `likeness ${edge.score.toFixed(2)}`, edge.by].filter(Boolean).join(", ");
  return html`<li><span class="number">${edge.weight.toFixed(2)}</span><div class="what"><a href=${at`/memory/${edge.from}`}>${edge.from_title || edge.from}</a> <b>${words(edge.relation)}</b> <a href=${at`/memory/${edge.to}`}>${edge.to_title || edge.to}</a>${why && html` <span class="soft">(${why})</span>`}</div><span class="when"><${Ago} at=${edge.made_at} /></span></li>`;
}

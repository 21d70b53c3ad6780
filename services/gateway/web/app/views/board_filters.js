// What the goals are narrowed to: words, outcome, agent, a period, what a figure counts. All of it is in the address.

import { setQuery } from "../router.js";
import { AGENTS } from "../ui/agent.js";
import { html, useEffect, useRef, useState } from "../ui/html.js";
import { periodText } from "../ui/period.js";
import { SavedFilters } from "../ui/saved.js";

const PAUSE = 200; // ms after the last key before the goals are read again
const OUTCOMES = [["", "outcome"], ["done", "done"], ["done_with_findings", "done, with findings"], ["not_checked", "not checked"], ["failed", "failed"]];

export const FILTERS = ["text", "outcome", "agent", "figure", "since", "until"];

export function Filters({ filters, figure }) {
  return html`<div class="filters"><${Words} text=${filters.text} />
    <label><span class="visually-hidden">Outcome</span><select value=${filters.outcome} onChange=${(event) => setQuery({ outcome: event.target.value })}>${OUTCOMES.map(
      ([value, word]) => html`<option key=${value} value=${value}>${word}</option>`,
    )}</select></label>
    <label><span class="visually-hidden">Agent</span><select value=${filters.agent} onChange=${(event) => setQuery({ agent: event.target.value })}><option value="">agent</option>${AGENTS.map(
      (name) => html`<option key=${name} value=${name}>${name}</option>`,
    )}</select></label>
    ${(filters.figure || filters.since || filters.until) && html`<span class="chip">${filters.figure ? html`counted in <b>${figure || filters.figure}</b>` : "submitted"} ${periodText(filters.since, filters.until)}
      <button type="button" class="plain" aria-label="All goals, of any time" onClick=${() => setQuery({ figure: "", since: "", until: "" })}>✕</button></span>`}
    <${SavedFilters} view="goals" filter=${filters} /></div>`;
}

/** Board or list. */
export function Modes({ mode, onMode }) {
  return html`<div class="modes" role="group" aria-label="Shown as">${["board", "list"].map(
    (each) => html`<button type="button" key=${each} aria-pressed=${String(each === mode)} onClick=${() => onMode(each)}>${each === "board" ? "Board" : "List"}</button>`,
  )}</div>`;
}

function Words({ text }) {
  const [typed, setTyped] = useState(text);
  const timer = useRef(0);
  useEffect(() => setTyped(text), [text]);
  const change = (event) => {
    const { value } = event.target;
    setTyped(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ text: value.trim().slice(0, 200) }), PAUSE);
  };
  return html`<label class="words"><span class="visually-hidden">Words in a goal</span><input type="search" data-filter placeholder="Filter: words of a goal, or its id" value=${typed} onInput=${change} /></label>`;
}

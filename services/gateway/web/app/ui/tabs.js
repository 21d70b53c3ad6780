// Tabs of a view; arrows move between them. The one that is shown is in the address, so that it can be shared.

import { setQuery } from "../router.js";
import { html } from "./html.js";

/** tabs: [{name, label, count}]; selected: a name; `end`: what stands at the right. */
export function Tabs({ tabs, selected, onSelect = (name) => setQuery({ tab: name === tabs[0].name ? "" : name }), label, end = null }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex((tab) => tab.name === selected);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    onSelect(next.name);
    event.currentTarget.querySelector(`[data-tab="${next.name}"]`)?.focus();
  };
  return html`<div class="tabs"><div role="tablist" aria-label=${label} onKeyDown=${move} style=${{ display: "contents" }}>${tabs.map(
    (tab) => html`<button type="button" role="tab" key=${tab.name} data-tab=${tab.name} aria-selected=${String(tab.name === selected)}
      tabindex=${tab.name === selected ? 0 : -1} onClick=${() => onSelect(tab.name)}>${tab.label} ${tab.count !== undefined && html`<span class="mono">${tab.count}</span>`}</button>`,
  )}</div>${end && html`<span class="end">${end}</span>`}</div>`;
}

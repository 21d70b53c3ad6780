// Filters that a person gave a name: kept in this browser, and nowhere else.

import { setQuery } from "../router.js";
import { remember, remembered } from "../store.js";
import { ask } from "./dialog.js";
import { html, useState } from "./html.js";

function read(view) {
  try {
    const found = JSON.parse(remembered(`filters.${view}`) || "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each?.name === "string" && each.filter && typeof each.filter === "object") : [];
  } catch {
    return [];
  }
}

/** `filter`: what is set now, by the names in the address; empty values are not set. */
export function SavedFilters({ view, filter }) {
  const [saved, setSaved] = useState(() => read(view));
  const keep = (next) => {
    setSaved(next);
    remember(`filters.${view}`, next.length ? JSON.stringify(next) : null);
  };
  const cleared = Object.fromEntries(Object.keys(filter).map((name) => [name, ""]));
  const isSet = Object.values(filter).some(Boolean);
  const same = (each) => Object.keys(filter).every((name) => (each.filter[name] || "") === filter[name]);
  const save = async () => {
    const name = await ask({ title: "Save this filter", text: "It is kept in this browser, under a name of yours.", field: "Name", yes: "Save" });
    if (name) keep([...saved.filter((each) => each.name !== name), { name, filter }]);
  };
  const known = saved.some(same);
  if (!saved.length && !isSet) return null;
  return html`<span class="saved" role="group" aria-label="Saved filters">${saved.map((each) => html`<span key=${each.name} class="chip"><button type="button" class="plain" aria-pressed=${String(same(each))}
      onClick=${() => setQuery({ ...cleared, ...(same(each) ? {} : each.filter) })}>${each.name}</button><button type="button" class="plain" aria-label=${`Forget the filter ${each.name}`} onClick=${() => keep(saved.filter((other) => other !== each))}>✕</button></span>`)}
    ${isSet && !known && html`<button type="button" class="plain" onClick=${save}>Save filter</button>`}${isSet && html`<button type="button" class="plain" onClick=${() => setQuery(cleared)}>Clear</button>`}</span>`;
}

// Memory as it was: a slider over its versions, with what the version that is shown changed.

import { get } from "../api.js";
import { useKeys } from "../keyboard.js";
import { setQuery } from "../router.js";
import { count } from "../ui/format.js";
import { html, useEffect, useRef, useState } from "../ui/html.js";
import { useResource } from "../ui/resource.js";
import { Clock } from "../ui/time.js";
import { Change } from "./memory_versions.js";

const PAUSE = 180; // ms for which the slider must rest before a version is read

export function VersionSlider({ layout, past, version, loading }) {
  const [wanted, setWanted] = useState(past || version);
  const due = useRef(0);
  useEffect(() => setWanted(past || version), [past, version]);
  const shown = past || version;
  const around = useResource((signal) => get("/memory/versions", { before: shown + 1, limit: 1 }, { signal }), [shown]);
  const first = around.data?.first || 1;
  const change = around.data?.versions[0];
  const go = (value) => {
    const next = Math.max(first, Math.min(version, value));
    setWanted(next);
    clearTimeout(due.current);
    due.current = setTimeout(() => setQuery({ at: next >= version ? "" : String(next) }), PAUSE);
  };
  const back = async () => {
    const page = await get("/memory/versions", { before: change?.version || wanted, limit: 1 });
    go(page.versions[0]?.version || first);
  };
  useKeys({ "[": { label: "version before", run: back }, "]": { label: "present version", run: () => go(version) } });
  if (version <= first) return null;
  return html`<section class="slider panel" aria-label="Version"><div class="slide"><button type="button" title="The change before: [" onClick=${back}>‹<span class="visually-hidden"> The change before</span></button>
      <input type="range" min=${first} max=${version} value=${wanted} aria-label="Graph version" aria-valuetext=${`version ${wanted}${wanted >= version ? ", now" : ""}`} onInput=${(event) => go(Number(event.target.value))} />
      <button type="button" disabled=${!past} title="Now: ]" onClick=${() => go(version)}>Now</button></div>
    <p class="told" role="status" aria-busy=${loading ? "true" : undefined}><b>Version ${count(wanted)}</b>${past ? html`<span class="past">as it was</span>` : html`<span>now</span>`}
      <span>${count(layout.total)} nodes, ${count(layout.total_edges)} links</span>
      ${change && html`<span class="last"><span class="soft">last change <${Clock} at=${change.at} /></span> <${Change} change=${change} brief /></span>`}</p></section>`;
}

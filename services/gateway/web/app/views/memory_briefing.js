// A prompt as the model gets it, now or at a version, and what changed in its briefing between two versions.

import { get } from "../api.js";
import { setQuery } from "../router.js";
import { Loading, Problem } from "../ui/empty.js";
import { count, plural } from "../ui/format.js";
import { html, useEffect, useState } from "../ui/html.js";
import { useResource } from "../ui/resource.js";

const KNOWN = ["engineer", "conductor", "scout", "critic", "nexus", "cortex", "frontier"];

export function Briefing({ query, version }) {
  const agents = useResource((signal) => get("/agents", {}, { signal }).then((page) => page.agents.map((each) => each.name || each.agent)), []);
  const names = [...new Set([...KNOWN, ...(agents.data || [])])].filter((name) => name && !["memory", "user", "gateway"].includes(name));
  const agent = query.agent || names[0];
  const at = Number(query.at) || 0;
  const since = query.since === undefined ? "" : query.since;
  const compact = query.form === "titles";
  return html`<form class="controls" onSubmit=${(event) => event.preventDefault()}>
      <label>Briefing of <select value=${agent} onChange=${(event) => setQuery({ agent: event.target.value })}>${names.map((name) => html`<option key=${name} value=${name} selected=${name === agent}>${name}</option>`)}</select></label>
      <label>at version <${VersionField} value=${query.at || ""} most=${version} placeholder=${`${count(version)}, now`} onChange=${(value) => setQuery({ at: value })} label="Version" /></label>
      <label>compared with <${VersionField} value=${since} most=${version} placeholder="none" onChange=${(value) => setQuery({ since: value })} label="Compared with version" /></label>
      <label><input type="checkbox" checked=${compact} onChange=${(event) => setQuery({ form: event.target.checked ? "titles" : "" })} /> titles alone</label></form>
    ${since ? html`<${Difference} agent=${agent} since=${Number(since)} until=${at} compact=${compact} version=${version} />` : html`<${Text} agent=${agent} at=${at} compact=${compact} version=${version} />`}`;
}

function VersionField({ value, most, placeholder, onChange, label }) {
  const [draft, setDraft] = useState(value);  // what is being typed outlives what comes meanwhile
  useEffect(() => setDraft(value), [value]);
  return html`<input type="number" class="number" min="1" max=${most} value=${draft} placeholder=${placeholder} aria-label=${label} onInput=${(event) => setDraft(event.target.value)} onChange=${(event) => onChange(event.target.value)} />`;
}

function Text({ agent, at, compact, version }) {
  const load = (signal) => (compact ? get("/memory/brief", { agent, at, compact }, { signal }).then((briefing) => ({ briefing, prompt: briefing.text })) : get("/memory/prompt", { agent, at }, { signal }));
  const told = useResource(load, [agent, at || version, compact]);
  if (told.error) return html`<${Problem} error=${told.error} retry=${told.reload} />`;
  if (!told.data) return html`<${Loading} what="the briefing" />`;
  const { prompt: text, briefing: { nodes_consulted: consulted, version: made, sections } } = told.data;
  const nodes = sections.reduce((sum, section) => sum + section.nodes.length, 0);
  return html`<p class="meta"><span>made of <b>${plural(nodes, "node")}</b> out of ${count(consulted)}</span><span><b>${count(text.length)}</b> characters</span><span>at version <b>${count(made)}</b></span>
      <span>${compact ? "titles alone, as with --compact" : "the prompt as the model gets it"}</span></p>
    <pre class="panel briefing" tabindex="0" aria-label=${`Briefing of ${agent}`}>${text}</pre>`;
}

const MARKS = { added: "+", removed: "−", same: " " };

function Difference({ agent, since, until, compact, version }) {
  const diff = useResource((signal) => get("/memory/brief/diff", { agent, from: since, to: until, compact }, { signal }), [agent, since, until || version, compact]);
  if (diff.error) return html`<${Problem} error=${diff.error} retry=${diff.reload} />`;
  if (!diff.data) return html`<${Loading} what="the difference" />`;
  const { lines, added, removed, from, to } = diff.data;
  if (!lines.length) return html`<p class="soft">The briefing of ${agent} is the same at version ${count(from)} and at version ${count(to)}.</p>`;
  return html`<p class="meta"><span class="ok">+${plural(added, "line")}</span><span class="bad">−${plural(removed, "line")}</span><span>from version <b>${count(from)}</b> to <b>${count(to)}</b></span></p>
    <div class="diff"><table aria-label="What changed in the briefing"><tbody>${lines.map((line, index) => html`<${Line} key=${index} line=${line} />`)}</tbody></table></div>`;
}

function Line({ line }) {
  if (line.kind === "skipped") return html`<tr class="hunk"><td></td><td>${plural(Number(line.text), "line")} the same</td></tr>`;
  const kind = { added: "plus", removed: "minus" }[line.kind] || "";
  return html`<tr class=${kind}><td class="at"><span aria-hidden="true">${MARKS[line.kind]}</span><span class="visually-hidden">${line.kind}</span></td><td>${line.text}</td></tr>`;
}

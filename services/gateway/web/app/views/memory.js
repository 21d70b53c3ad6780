// Memory: what is known, with why it was found; the graph beside the table of its nodes; versions; briefings.

import { get } from "../api.js";
import { useKeys } from "../keyboard.js";
import { navigate, setQuery } from "../router.js";
import { office } from "../store.js";
import { Empty, Problem } from "../ui/empty.js";
import { count, plural } from "../ui/format.js";
import { html, useEffect, useRef } from "../ui/html.js";
import { useLiveResource } from "../ui/resource.js";
import { Tabs } from "../ui/tabs.js";
import { Briefing } from "./memory_briefing.js";
import { Graph } from "./memory_graph.js";
import { Links } from "./memory_links.js";
import { NodePage } from "./memory_node.js";
import { Versions } from "./memory_versions.js";

const STREAM = "MEMORY"; // its messages are writes of memory
const MOST_KINDS = 6;
const TABS = [
  { name: "graph", label: "Graph" },
  { name: "links", label: "Links" },
  { name: "versions", label: "Versions" },
  { name: "briefing", label: "Briefings" },
];

/** Whether an event may have changed memory. */
export function concernsMemory({ message }) {
  return message.stream === STREAM;
}

export default function Memory({ params, query }) {
  const counts = useLiveResource((signal) => get("/memory/counts", {}, { signal }), [], concernsMemory, 1500);
  useEffect(() => {
    if (counts.data) office.value = { ...office.value, memory: counts.data.version };
  }, [counts.data?.version]);
  if (params.id) return html`<${NodePage} id=${params.id} at=${Number(query.at) || 0} />`;
  const tab = TABS.some((each) => each.name === query.tab) ? query.tab : "graph";
  return html`<div class="head"><div><h1>${headline(counts.data)}</h1><${Kinds} counts=${counts.data} /></div><${Search} words=${query.q || ""} /></div>
    ${counts.error && html`<${Problem} error=${counts.error} retry=${counts.reload} />`}
    <${Tabs} tabs=${TABS} selected=${tab} label="Memory" />
    ${counts.data?.nodes === 0 ? html`<${Nothing} />` : html`<${Shown} tab=${tab} query=${query} version=${counts.data?.version || 0} />`}`;
}

function Shown({ tab, query, version }) {
  if (tab === "links") return html`<${Links} version=${version} />`;
  if (tab === "versions") return html`<${Versions} version=${version} />`;
  if (tab === "briefing") return html`<${Briefing} query=${query} version=${version} />`;
  return html`<${Graph} query=${query} version=${version} />`;
}

function headline(counts) {
  if (!counts) return "Memory";
  return `${plural(counts.nodes, "memory", "memories")}, ${plural(counts.edges, "link")}, version ${count(counts.version)}`;
}

function Kinds({ counts }) {
  const kinds = Object.entries(counts?.kinds || {}).sort((one, other) => other[1] - one[1]);
  if (!kinds.length) return null;
  const others = kinds.slice(MOST_KINDS).reduce((sum, [, number]) => sum + number, 0);
  return html`<div class="meta">${kinds.slice(0, MOST_KINDS).map(([kind, number]) => html`<span key=${kind}><b>${count(number)}</b> ${number === 1 ? kind : `${kind}s`}</span>`)}
    ${others > 0 && html`<span><b>${count(others)}</b> of other kinds</span>`}</div>`;
}

function Search({ words }) {
  const field = useRef(null);
  const due = useRef(0);
  useKeys({ "/": { label: "search memory", run: () => field.current?.focus() } });
  const change = (event) => {
    const q = event.target.value.trim();
    clearTimeout(due.current);
    due.current = setTimeout(() => setQuery({ q, tab: "", node: "" }), 250);
  };
  return html`<form class="memory-search" role="search" onSubmit=${(event) => event.preventDefault()}><input type="search" ref=${field} aria-label="Search memory" aria-keyshortcuts="/"
    placeholder="Search memory" defaultValue=${words} onInput=${change} /><kbd aria-hidden="true">/</kbd></form>`;
}

function Nothing() {
  return html`<${Empty} title="Memory is empty" action=${html`<button type="button" onClick=${() => navigate("/chat")}>Ask the front desk</button>`}
    >It grows with every goal, with notes dropped into the folder <code>ingest</code>, and with what you add: <code>mailroom memory add "Deploys happen on Tuesdays" --kind decision</code><//>`;
}

// The graph of memory and the table of its nodes, of any version: search results stand out in both.

import { at, get } from "../api.js";
import { navigate, setQuery } from "../router.js";
import { AgentChip } from "../ui/agent.js";
import { Loading, Problem } from "../ui/empty.js";
import { count, plural } from "../ui/format.js";
import { html, useEffect, useMemo, useState } from "../ui/html.js";
import { useResource } from "../ui/resource.js";
import { Rows } from "../ui/rows.js";
import { GraphCanvas } from "./graph_canvas.js";
import { usePlaces } from "./graph_places.js";
import { NodePanel } from "./memory_panel.js";
import { VersionSlider } from "./memory_slider.js";

const LIMIT = 500;
const MOST = 2000;
const HITS = 40;

export function Graph({ query, version }) {
  const past = Number(query.at) || 0;
  const deep = query.deep === "1";
  const shown = past || version;
  const limit = query.most ? MOST : LIMIT;
  const layout = useResource(
    (signal) => get("/memory/graph", { at: past, limit, forgotten: query.forgotten === "1" ? "true" : "" }, { signal }),
    [shown, query.forgotten, limit],
  );
  const placed = usePlaces(layout.data);
  const found = useResource(
    (signal) => (query.q ? get("/memory/search", { q: query.q, limit: HITS, at: past, deep: deep ? "true" : "" }, { signal }) : Promise.resolve(null)),
    [query.q, past, deep],
  );
  const hits = query.q ? found.data?.hits : null;
  const marked = useMemo(() => (hits ? new Set(hits.map((hit) => hit.node.id)) : null), [hits]);
  const select = (node) => setQuery({ node });
  if (!layout.data && layout.error) return html`<${Problem} error=${layout.error} retry=${layout.reload} />`;
  if (!layout.data) return html`<${Loading} what="the graph" />`;
  const rows = hits ? hits.map((hit) => ({ ...hit.node, agent: hit.node.source.agent, score: hit.score, why: hit.why })) : listed(layout.data.nodes);
  return html`<div class="memory-split"><section class="memory-list" aria-label=${query.q ? "Found in memory" : "Nodes of the graph"}>
      <${ListHead} query=${query} rows=${rows} layout=${layout.data} searching=${query.q && found.loading} deep=${deep} />
      ${found.error && html`<${Problem} error=${found.error} retry=${found.reload} />`}
      <${NodeRows} rows=${rows} selected=${query.node || ""} onSelect=${select} past=${past} /></section>
    <section class="memory-graph panel" aria-label="Graph">${placed
        ? html`<${GraphCanvas} layout=${placed} selected=${query.node || ""} onSelect=${select} marked=${marked} label=${describe(placed)} />`
        : html`<${Loading} what="the graph" />`}
      <${Legend} forgotten=${query.forgotten === "1"} />
      ${query.node && html`<${NodePanel} id=${query.node} version=${past} onClose=${() => setQuery({ node: "" })} />`}</section></div>
    <${VersionSlider} layout=${layout.data} past=${past} version=${version} loading=${layout.loading} />`;
}

function listed(nodes) {
  const holds = (node) => Number(node.standing === "current");
  return [...nodes].sort((one, other) => holds(other) - holds(one) || other.degree - one.degree || other.importance - one.importance || (one.id < other.id ? -1 : 1));
}

function describe(layout) {
  return `Graph of memory at version ${layout.version}: ${plural(layout.nodes.length, "node")} and ${plural(layout.edges.length, "link")}. The list beside it has the same nodes. Arrow keys go from node to node, + and - zoom.`;
}

function ListHead({ query, rows, layout, searching, deep }) {
  const told = query.q
    ? `${rows.length ? plural(rows.length, "hit") : searching ? "Searching …" : "Nothing fits"}`
    : layout.nodes.length < layout.total ? `${count(layout.nodes.length)} of ${plural(layout.total, "node")}: the most linked, important and recent` : `${plural(layout.total, "node")}, ${plural(layout.total_edges, "link")}`;
  return html`<div class="list-head"><span role="status">${told}</span>
    ${!query.q && layout.nodes.length === LIMIT && layout.total > LIMIT && html`<button type="button" class="plain" onClick=${() => setQuery({ most: MOST })}>Show ${count(Math.min(MOST, layout.total))}</button>`}
    ${query.q && html`<label><input type="checkbox" checked=${deep} onChange=${(event) => setQuery({ deep: event.target.checked ? "1" : "" })} /> read closely</label>`}</div>`;
}

function NodeRows({ rows, selected, onSelect, past }) {
  const index = rows.findIndex((row) => row.id === selected);
  const tall = useTall();
  const address = (row) => `${at`/memory/${row.id}`}${past ? `?at=${past}` : ""}`;
  return html`<${Rows} count=${rows.length} label="Nodes" height=${56} tall=${tall} keyOf=${(row) => rows[row].id} selected=${index} onSelect=${(row) => onSelect(rows[row].id)}
    onOpen=${(row) => (rows[row].id === selected ? navigate(address(rows[row])) : onSelect(rows[row].id))} render=${(row) => html`<${NodeRow} node=${rows[row]} />`} />`;
}

const NARROW = matchMedia("(max-width: 1080px)");

function useTall() {
  const [narrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return narrow ? "46vh" : "max(340px, calc(100vh - 408px))";
}

function NodeRow({ node }) {
  const gone = node.standing && node.standing !== "current";
  return html`<span class="node-row"><span class=${`text${gone ? " gone" : ""}`}>${node.title}</span>
    <span class="under"><${AgentChip} name=${node.agent || ""} /><span>${node.kind}</span>${gone && html`<span>${node.standing}</span>`}
      ${node.score !== undefined ? html`<${Why} score=${node.score} why=${node.why} />` : html`<span class="number">${plural(node.degree, "link")}</span>`}</span></span>`;
}

const PARTS = { vector: "meaning", keyword: "words", date: "date", name: "name", graph: "near", rerank: "close reading" };

/** The score as a number, and its parts as a bar each. */
function Why({ score, why }) {
  const parts = Object.entries(why).filter(([, value]) => value > 0);
  const told = parts.map(([name, value]) => `${PARTS[name] || name} ${value.toFixed(2)}`).join(", ");
  return html`<span class="why" title=${`${told} → ${score.toFixed(2)}`}><b class="number">${score.toFixed(2)}</b>
    ${parts.slice(0, 3).map(([name, value]) => html`<span key=${name} class="part"><i style=${{ width: `${Math.min(100, value * 100)}%` }}></i>${PARTS[name] || name}</span>`)}
    <span class="visually-hidden">${told}</span></span>`;
}

function Legend({ forgotten }) {
  return html`<div class="legend"><span><i class="full"></i>holds</span><span><i class="ring"></i>superseded</span>
    <span><i class="line wait"></i>supersedes</span><span><i class="line bad"></i>contradicts</span>
    <label><input type="checkbox" checked=${forgotten} onChange=${(event) => setQuery({ forgotten: event.target.checked ? "1" : "" })} /> with forgotten</label></div>`;
}

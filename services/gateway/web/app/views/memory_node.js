// A node of memory: what it says, where it comes from, what it is linked with, and what it was before.

import { at, get } from "../api.js";
import { navigate } from "../router.js";
import { AgentChip } from "../ui/agent.js";
import { Loading, Problem } from "../ui/empty.js";
import { count, plural } from "../ui/format.js";
import { html } from "../ui/html.js";
import { Json } from "../ui/json.js";
import { KeyValue } from "../ui/keyvalue.js";
import { Markdown } from "../ui/markdown.js";
import { useResource } from "../ui/resource.js";
import { Ago, Clock } from "../ui/time.js";
import { GraphCanvas } from "./graph_canvas.js";
import { ForgetButton, ShareButton } from "./memory_forget.js";

const NEAR = 24; // nodes of the picture of its neighbourhood

export function NodePage({ id, at: version }) {
  const page = useResource((signal) => get(at`/memory/nodes/${id}`, { at: version }, { signal }), [id, version]);
  if (page.error) return html`<h1>Memory</h1><${Problem} error=${page.error} retry=${page.reload} />`;
  if (!page.data) return html`<h1>Memory</h1><${Loading} what="the node" />`;
  const { node, edges, history } = page.data;
  const forgotten = node.retired_version > 0;
  return html`<div class="head"><div><h1>${node.title}</h1><div class="meta"><span>${node.kind}</span><${AgentChip} name=${node.source.agent} />
      <span><${Ago} at=${node.updated_at || node.created_at} /></span><span>version <b>${count(node.version)}</b></span>${version > 0 && html`<span class="past">as of version ${count(version)}</span>`}</div></div>
      <div class="actions"><a class="button" href=${`/memory?node=${encodeURIComponent(id)}`}>In the graph</a><${ShareButton} node=${node} onDone=${page.reload} /><${ForgetButton} node=${node} onDone=${page.reload} /></div></div>
    <${Standing} page=${page.data} />
    <div class="node-split"><div>${node.body && html`<div class="panel text"><${Markdown} text=${node.body} /></div>`}
      <h2>History <small>${plural(history.states.length + history.omitted, "state")}</small></h2><${History} history=${history} />
      <h2>Linked with <small>${plural(edges.length, "link")}</small></h2><${Links} edges=${edges} /></div>
    <div class="beside"><${Near} id=${id} version=${version} forgotten=${forgotten} />
      <div class="panel text"><${NodeFacts} page=${page.data} /></div></div></div>`;
}

/** What took its place, what contradicts it, that it was forgotten: the first thing to know of a node. */
export function Standing({ page }) {
  const { node, superseded_by: by, supersedes, contradicts } = page;
  const ended = node.valid_to && Date.parse(node.valid_to) <= Date.now();
  return html`${node.retired_version > 0 && html`<p class="standing"><b>Forgotten</b> at version ${count(node.retired_version)}. Nothing finds it any more.</p>`}
    ${by.length > 0 ? html`<p class="standing"><b>Superseded</b> by ${named(by)}</p>` : ended && html`<p class="standing"><b>No longer valid</b> since <${Clock} at=${node.valid_to} /></p>`}
    ${contradicts.length > 0 && html`<p class="standing bad"><b>Contradicts</b> ${named(contradicts)}</p>`}
    ${supersedes.length > 0 && html`<p class="standing holds"><b>Holds now</b>, in place of ${named(supersedes)}</p>`}`;
}

function named(nodes) {
  return nodes.map((node, index) => html`<span key=${node.id}>${index ? ", " : ""}<a href=${at`/memory/${node.id}`}>${node.title}</a></span>`);
}

export function NodeFacts({ page }) {
  const { node } = page;
  const metadata = Object.keys(node.metadata || {}).length ? html`<${Json} value=${node.metadata} />` : "";
  return html`<div><${KeyValue} pairs=${[
    ["Kind", node.kind],
    ["From", html`<${AgentChip} name=${node.source.agent} />`],
    ["Session", node.source.session],
    ["By way of", node.source.channel],
    ["Written", html`<${Clock} at=${node.created_at} />`],
    ["Changed", node.updated_at && html`<${Clock} at=${node.updated_at} />`],
    ["Valid", [node.valid_from && `from ${node.valid_from.slice(0, 10)}`, node.valid_to && `until ${node.valid_to.slice(0, 10)}`].filter(Boolean).join(" ")],
    ["Importance", node.importance.toFixed(2)],
    ["Read", node.access_count ? `${plural(node.access_count, "time")}` : ""],
    ["Tags", node.tags.length ? node.tags.join(", ") : ""],
    ["Id", html`<code>${node.id}</code>`],
  ]} />${metadata}</div>`;
}

function Near({ id, version, forgotten }) {
  const layout = useResource((signal) => (forgotten ? Promise.resolve(null) : get("/memory/graph", { anchor: id, limit: NEAR, at: version }, { signal })), [id, version]);
  if (!layout.data || layout.data.nodes.length < 2) return null;
  const open = (other) => other && other !== id && navigate(`${at`/memory/${other}`}${version ? `?at=${version}` : ""}`);
  return html`<div class="panel near"><${GraphCanvas} layout=${layout.data} selected=${id} onSelect=${open} label=${`What is near in the graph: ${plural(layout.data.nodes.length - 1, "node")}. The list of links has them too.`} /></div>`;
}

const WORDS = { added: "Written", changed: "Changed", forgotten: "Forgotten" };

function History({ history }) {
  return html`<ol class="history">${history.states.map((state, index) => html`<${State} key=${state.version} state=${state} before=${history.states[index + 1]} />`)}
    ${history.omitted > 0 && html`<li class="soft">${plural(history.omitted, "earlier state")}</li>`}</ol>`;
}

function State({ state, before }) {
  return html`<li><div class="line"><b>${WORDS[state.change]}</b><${AgentChip} name=${state.sender} person=${state.person} /><${Clock} at=${state.at} />
      <a class="number" href=${`/memory?at=${state.version}`}>v ${count(state.version)}</a></div>
    ${before && state.fields.filter((name) => name !== "retired_version").map((name) => html`<${Field} key=${name} name=${name} before=${before.node[name]} after=${state.node[name]} />`)}</li>`;
}

function Field({ name, before, after }) {
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  return html`<div class="field"><span class="soft">${name.replace("_", " ")}</span><div><del>${text(before).slice(0, 600) || "nothing"}</del><ins>${text(after).slice(0, 600) || "nothing"}</ins></div></div>`;
}

function Links({ edges }) {
  if (!edges.length) return html`<p class="soft">It is linked with nothing.</p>`;
  const sorted = [...edges].sort((one, other) => other.edge.weight - one.edge.weight);
  return html`<ul class="links">${sorted.map(({ direction, edge, node }) => html`<li key=${`${direction}${edge.relation}${node.id}`}>
    <span class="relation" title=${direction === "out" ? "from here" : "to here"}><span aria-hidden="true">${direction === "out" ? "→" : "←"}</span> ${edge.relation.replace("_", " ")}</span>
    <a class="text" href=${at`/memory/${node.id}`}>${node.title}</a><${AgentChip} name=${edge.provenance?.agent || node.source.agent} /><span class="number soft">${edge.weight.toFixed(2)}</span></li>`)}</ul>`;
}

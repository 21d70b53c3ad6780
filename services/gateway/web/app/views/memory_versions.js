// The versions of memory, the latest first: who changed what, and when.

import { at, get } from "../api.js";
import { AgentChip } from "../ui/agent.js";
import { Loading, Problem } from "../ui/empty.js";
import { count, plural } from "../ui/format.js";
import { html, useEffect, useState } from "../ui/html.js";
import { Ago } from "../ui/time.js";

const PAGE = 50;

export function Versions({ version }) {
  const [state, setState] = useState({ versions: [], next: 0, error: null, loaded: false });
  const read = async (before) => {
    try {
      const page = await get("/memory/versions", { before, limit: PAGE });
      setState((known) => ({ versions: before ? [...known.versions, ...page.versions] : page.versions, next: page.next, error: null, loaded: true }));
    } catch (error) {
      setState((known) => ({ ...known, error }));
    }
  };
  useEffect(() => {
    read(0);
  }, [version]);
  if (state.error) return html`<${Problem} error=${state.error} retry=${() => read(0)} />`;
  if (!state.loaded) return html`<${Loading} what="the versions" />`;
  return html`<ol class="versions panel">${state.versions.map((change) => html`<${Version} key=${change.version} change=${change} />`)}</ol>
    ${state.next > 0 && html`<p><button type="button" onClick=${() => read(state.next)}>Earlier versions</button></p>`}`;
}

function Version({ change }) {
  return html`<li><a class="number" href=${`/memory?at=${change.version}`} title="Memory as it was then">v ${count(change.version)}</a>
    <div class="what"><${Change} change=${change} /></div><span class="when"><${Ago} at=${change.at} /></span></li>`;
}

const VERBS = { added: "added", changed: "changed", forgotten: "forgot" };

/** Who did what to which nodes, in a sentence. `brief`: with one title at most. */
export function Change({ change, brief = false }) {
  const shown = change.nodes.slice(0, brief ? 1 : 4);
  const more = change.changed - shown.length;
  return html`<${AgentChip} name=${change.sender} person=${change.person} /> ${shown.map(
    (node, index) => html`<span key=${node.id}>${index ? ", " : ""}${verbOf(shown, index)}<a href=${at`/memory/${node.id}`}>${node.title}</a></span>`,
  )}${more > 0 && html`<span class="soft"> and ${count(more)} more</span>`}${linked(change) && html`<span class="soft">${shown.length ? "; " : ""}${linked(change)}</span>`}`;
}

function verbOf(nodes, index) {
  const verb = VERBS[nodes[index].change];
  return index && verb === VERBS[nodes[index - 1].change] ? "" : `${verb} `;
}

function linked({ linked: made, unlinked }) {
  return [made && `made ${plural(made, "link")}`, unlinked && `ended ${plural(unlinked, "link")}`].filter(Boolean).join(", ");
}

// A node at the side: what it says, who said it, what took its place.

import { at, get } from "../api.js";
import { Problem } from "../ui/empty.js";
import { html } from "../ui/html.js";
import { Inspector } from "../ui/inspector.js";
import { Markdown } from "../ui/markdown.js";
import { useResource } from "../ui/resource.js";
import { ForgetButton, ShareButton } from "./memory_forget.js";
import { NodeFacts, Standing } from "./memory_node.js";

/** `version`: of the graph; 0 for now. */
export function NodePanel({ id, version = 0, onClose }) {
  const node = useResource((signal) => get(at`/memory/nodes/${id}`, { at: version }, { signal }), [id, version]);
  const address = `${at`/memory/${id}`}${version ? `?at=${version}` : ""}`;
  if (node.error) return html`<${Inspector} title="Memory" onClose=${onClose} label="Node"><div><${Problem} error=${node.error} /></div><//>`;
  if (!node.data) return html`<${Inspector} title="…" onClose=${onClose} label="Node"><p class="soft">Reading …</p><//>`;
  return html`<${Inspector} title=${html`<a href=${address}>${node.data.node.title}</a>`} onClose=${onClose} label="Node">
    <${Standing} page=${node.data} />
    ${node.data.node.body && html`<div class="excerpt"><${Markdown} text=${node.data.node.body} /></div>`}
    <${NodeFacts} page=${node.data} />
    <p class="actions"><a class="button" href=${address}>Open with its history</a><${ShareButton} node=${node.data.node} onDone=${node.reload} /><${ForgetButton} node=${node.data.node} onDone=${node.reload} /></p><//>`;
}

// What is selected, at the side: a row of the timeline with all that is on record of it, a message as it is stored, or a file.

import { at, get } from "../../api.js";
import { AgentChip } from "../../ui/agent.js";
import { Loading, Problem } from "../../ui/empty.js";
import { html } from "../../ui/html.js";
import { Inspector } from "../../ui/inspector.js";
import { Json } from "../../ui/json.js";
import { KeyValue } from "../../ui/keyvalue.js";
import { useResource } from "../../ui/resource.js";
import { Clock } from "../../ui/time.js";
import { RowDetails } from "./row.js";

export function Side({ goal, query, select, onClose }) {
  if (query.evidence) return html`<${File} goal=${goal} name=${query.evidence} onClose=${onClose} />`;
  if (query.message) return html`<${Message} name=${query.message} onClose=${onClose} />`;
  return html`<${RowDetails} goal=${goal} id=${query.row} select=${select} onClose=${onClose} />`;
}

function File({ goal, name, onClose }) {
  const file = useResource((signal) => get(`/goals/${encodeURIComponent(goal.goal_id)}/evidence/${encodeURIComponent(name)}`, {}, { signal }), [name]);
  const node = /^[A-Za-z0-9_-]{1,128}$/.test(name);
  return html`<${Inspector} title=${name} label="Evidence" onClose=${onClose}>
    ${node && html`<p><a href=${`/memory/${encodeURIComponent(name)}`}>Open it in memory</a></p>`}
    ${file.error ? html`<div><${Problem} error=${file.error} /></div>` : file.data === null ? html`<div><${Loading} /></div>` : html`<${Text} text=${file.data} />`}<//>`;
}

/** A file; the line that is meant is marked by the server with ">". */
function Text({ text }) {
  const lines = text.split("\n");
  const meant = lines.findIndex((line) => /^> +\d+ {2}/.test(line));
  if (meant < 0) return html`<pre tabindex="0" aria-label="Text">${text}</pre>`;
  return html`<pre tabindex="0" aria-label="Text">${lines.slice(0, meant).join("\n")}${meant ? "\n" : ""}<mark ref=${scrollTo}>${lines[meant]}</mark>${"\n"}${lines.slice(meant + 1).join("\n")}</pre>`;
}

function scrollTo(element) {
  const box = element?.closest(".inspector");
  if (box) box.scrollTop = Math.max(0, element.offsetTop - 120);
}

function Message({ name, onClose }) {
  const [stream, seq] = name.split("-");
  const message = useResource((signal) => get(at`/messages/${stream}/${seq || "0"}`, {}, { signal }), [name]);
  const row = message.data?.message;
  return html`<${Inspector} title=${`Message ${name}`} label="Message" onClose=${onClose}>
    ${message.error && html`<div><${Problem} error=${message.error} /></div>`}${!message.data && !message.error && html`<div><${Loading} /></div>`}
    ${row && html`<${KeyValue} pairs=${[
      ["From", html`<${AgentChip} name=${row.sender} person=${row.person} />`],
      ["To", row.recipient && html`<${AgentChip} name=${row.recipient} />`],
      ["Subject", html`<code>${row.subject}</code>`],
      ["Stored", html`<${Clock} at=${row.time} /> <span class="mono faint">#${row.seq}</span>`],
      ["Size", `${row.size} bytes`],
    ]} /><${Json} value=${message.data.body ?? message.data.raw} />`}<//>`;
}

// One message as it is stored: its place, its parties, its trace, its headers, its JSON.

import { at, get } from "../api.js";
import { AgentChip } from "../ui/agent.js";
import { Loading, Problem } from "../ui/empty.js";
import { bytes, clock, count, fullTime, shortId } from "../ui/format.js";
import { html } from "../ui/html.js";
import { Inspector } from "../ui/inspector.js";
import { Json } from "../ui/json.js";
import { KeyValue } from "../ui/keyvalue.js";
import { useResource } from "../ui/resource.js";

/** name: the stream and the sequence, such as OFFICE:1200. */
export function Message({ name, onClose }) {
  const [stream, seq] = name.split(":");
  const message = useResource((signal) => get(at`/messages/${stream}/${seq || 0}`, {}, { signal }), [name]);
  return html`<${Inspector} title=${html`<span class="mono">${stream} ${count(Number(seq))}</span>`} onClose=${onClose} label="Message">${
    message.error ? html`<div><${Problem} error=${message.error} retry=${message.reload} /></div>`
      : !message.data ? html`<div><${Loading} what="the message" /></div>` : html`<${Whole} whole=${message.data} />`
  }<//>`;
}

function Whole({ whole }) {
  const { message, headers, body, raw } = whole;
  const time = Date.parse(message.time);
  const trace = (headers.traceparent || "").split("-")[1];
  const others = Object.entries(headers).filter(([name]) => name !== "traceparent");
  return html`<${KeyValue} pairs=${[
      ["Subject", html`<code>${message.subject}</code>`],
      ["Stored", html`<time datetime=${message.time} title=${fullTime(time)}>${clock(time)}</time>`],
      ["From", html`<${AgentChip} name=${message.sender} person=${message.person} />`],
      ["To", message.recipient && html`<${AgentChip} name=${message.recipient} />`],
      ["Type", html`<code>${message.type}</code>`],
      ["Goal", message.goal_id && html`<a href=${at`/goals/${message.goal_id}`} class="mono" title=${message.goal_id}>${shortId(message.goal_id)}</a>`],
      ["Task", message.task_id && html`<span class="mono">${message.task_id}</span>`],
      ["Trace", trace && html`<span class="mono">${trace}</span>`],
      ["Size", bytes(message.size)],
    ]} />
    ${others.length > 0 && html`<details class="headers"><summary>${others.length} headers</summary><${KeyValue} pairs=${others.map(([name, value]) => [name, html`<code>${value}</code>`])} /></details>`}
    <${Json} value=${raw || body} />`;
}

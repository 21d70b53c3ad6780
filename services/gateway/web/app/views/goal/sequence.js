// Who sent what to whom: a lane for each, a line for each message, in the order in which the broker stored them.

import { AgentChip, agentColour, agentName } from "../../ui/agent.js";
import { count } from "../../ui/format.js";
import { html, useEffect, useRef, useState } from "../../ui/html.js";

const LANE = 132; // px between two lanes at least
const WIDEST = 240; // and at most
const TIMES = 100; // px for the times at the left
const STEP = 27;
const HEAD = 44;
const NAMED = 30; // characters of a message's name

export function Sequence({ goal, selected, onSelect }) {
  const [table, setTable] = useState(false);
  const { messages, lanes } = goal;
  if (!messages.length) return null;
  const more = goal.messages_total - messages.length;
  return html`<section aria-label="Messages between agents"><h2>Who sent what to whom <small>${count(goal.messages_total)} messages, in the order the broker stored them</small>
      <button type="button" class="plain" aria-pressed=${String(table)} onClick=${() => setTable(!table)}>Table</button></h2>
    ${table ? html`<${Table} goal=${goal} onSelect=${onSelect} />` : html`<div class="sequence" tabindex="0" role="group" aria-label="Messages, one a line"><${Picture} messages=${messages} lanes=${lanes} begin=${Date.parse(goal.submitted_at)} selected=${selected} onSelect=${onSelect} /></div>`}
    ${more > 0 && html`<p class="soft">${count(more)} more: <a href=${`/traffic?goal=${encodeURIComponent(goal.goal_id)}`}>see them in the traffic</a></p>`}</section>`;
}

/** The width inside the box around the picture, in px. */
function useWidth(box) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const frame = box.current.parentElement;
    const watch = new ResizeObserver(() => {
      const { paddingLeft, paddingRight } = getComputedStyle(frame);
      setWidth(frame.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight));
    });
    watch.observe(frame);
    return () => watch.disconnect();
  }, []);
  return width;
}

/** What identifies a message: its stream and number. */
export function keyOf(message) {
  return `${message.stream}-${message.seq}`;
}

function Picture({ messages, lanes, begin, selected, onSelect }) {
  const box = useRef(null);
  const room = useWidth(box);
  const lane = Math.max(LANE, Math.min(WIDEST, (room - TIMES - 128) / Math.max(1, lanes.length - 1)));
  const x = (name) => TIMES + 44 + Math.max(0, lanes.indexOf(name)) * lane;
  const height = HEAD + messages.length * STEP;
  const width = TIMES + 44 + lane * (lanes.length - 1) + 84;
  return html`<svg ref=${box} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="list" aria-label="Messages">
    ${lanes.map((name) => html`<g key=${name} aria-hidden="true"><text class="lane" x=${x(name)} y="14" text-anchor="middle" style=${{ "--c": agentColour(name) }}>${agentName(name)}</text>
      <line class="life" x1=${x(name)} x2=${x(name)} y1="24" y2=${height - 6} /></g>`)}
    ${messages.map((message, index) => html`<${Arrow} key=${keyOf(message)} message=${message} y=${HEAD + index * STEP} from=${x(message.sender)} to=${x(message.recipient)} width=${width}
      begin=${begin} selected=${keyOf(message) === selected} onSelect=${onSelect} />`)}</svg>`;
}

function Arrow({ message, y, from, to, width, begin, selected, onSelect }) {
  const name = nameOf(message);
  const since = `+${Math.max(0, (Date.parse(message.time) - begin) / 1000).toFixed(3)}`;
  const open = () => onSelect(keyOf(message));
  const press = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    open();
  };
  const ahead = to >= from ? 1 : -1;
  const own = from === to;
  const path = own ? `M${from} ${y - 5}h22v8h-16` : `M${from} ${y}H${to - 6 * ahead}`;
  const tip = own ? `M${from + 1} ${y + 3}l7 -3.5v7z` : `M${to} ${y}l${-7 * ahead} -3.5v7z`;
  return html`<g role="listitem"><g role="button" tabindex="0" class=${`message${selected ? " selected" : ""}${failed(message) ? " bad" : ""}`} style=${{ "--c": agentColour(message.sender) }}
      aria-pressed=${String(selected)} onClick=${open} onKeyDown=${press}>
    <title>${`${since} s, ${agentName(message.sender)} to ${agentName(message.recipient)}: ${name}\n${message.text}`}</title><rect class="hit" x="0" y=${y - STEP / 2 - 4} width=${width} height=${STEP} /><path class="line" d=${path} /><path class="tip" d=${tip} /><circle cx=${from} cy=${own ? y - 5 : y} r="2.6" />
    <rect class="paper" x=${Math.min(from, to) + (own ? 26 : 9)} y=${y - 16} width=${name.length * 6.5 + 2} height="13" /><text x=${Math.min(from, to) + (own ? 27 : 10)} y=${y - 5}>${name}</text>
    <text class="at" x=${TIMES - 12} y=${y + 3} text-anchor="end">${since} s</text></g></g>`;
}

function failed(message) {
  return ["failed", "timeout", "cancelled"].includes(message.status) || message.type === "dead";
}

/** What a message is, in few words. */
export function nameOf(message) {
  const name = message.task_id && message.goal_id ? message.task_id.replace(`${message.goal_id}-`, "").replace(/-1$/, "") : "";
  const of = name === "task" ? "" : name; // the only task of a goal that names an action
  const words = {
    submission: "submission",
    task: `task ${of}`,
    result: message.status === "completed" ? `done ${of}` : `${message.status} ${of}`,
    approval: message.subject.includes(".asked.") ? `asks: ${message.text.replace(/^may I\? /, "")}` : message.text,
    memory: `write: ${message.text}`,
    report: "report",
  }[message.type];
  const text = (words || `${message.type} ${message.text}`).trim();
  return text.length > NAMED ? `${text.slice(0, NAMED - 1)}…` : text;
}

function Table({ goal, onSelect }) {
  const begin = Date.parse(goal.submitted_at);
  return html`<div class="tablebox"><table><caption class="visually-hidden">Messages in the order they were stored</caption><thead><tr><th>After</th><th>From</th><th>To</th><th>What</th><th>Text</th></tr></thead>
    <tbody>${goal.messages.map((each) => html`<tr key=${keyOf(each)}><td class="mono">+${((Date.parse(each.time) - begin) / 1000).toFixed(3)} s</td><td><${AgentChip} name=${each.sender} /></td><td><${AgentChip} name=${each.recipient} /></td>
      <td><button type="button" class="plain" onClick=${() => onSelect(keyOf(each))}>${each.type}</button></td><td>${each.text.slice(0, 200)}</td></tr>`)}</tbody></table></div>`;
}

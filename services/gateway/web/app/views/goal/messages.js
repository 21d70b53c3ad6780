// Every message of the goal as a list, oldest first; one opens its JSON at the side.

import { AgentChip } from "../../ui/agent.js";
import { html } from "../../ui/html.js";
import { Rows } from "../../ui/rows.js";
import { keyOf } from "./sequence.js";

export function MessageList({ goal, selected, onSelect }) {
  const { messages } = goal;
  const begin = Date.parse(goal.submitted_at);
  const open = (index) => onSelect(keyOf(messages[index]));
  return html`<${Rows} label="Messages" count=${messages.length} selected=${messages.findIndex((each) => keyOf(each) === selected)} keyOf=${(index) => keyOf(messages[index])} onSelect=${open} onOpen=${open}
      render=${(index) => html`<${Line} message=${messages[index]} begin=${begin} />`} />
    <p class="soft"><a href=${`/traffic?goal=${encodeURIComponent(goal.goal_id)}`}>All of its traffic</a>, with every step and checkpoint.</p>`;
}

function Line({ message, begin }) {
  return html`<span class="mono faint since">+${((Date.parse(message.time) - begin) / 1000).toFixed(3)}</span><${AgentChip} name=${message.sender} /><span class="faint">→</span><${AgentChip} name=${message.recipient} />
    <span class="text"><span class="soft">${message.type}</span> ${message.text}</span><span class="mono faint">#${message.seq}</span>`;
}

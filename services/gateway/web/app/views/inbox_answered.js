// What was answered, by whom and when; folded away.

import { at } from "../api.js";
import { AgentChip } from "../ui/agent.js";
import { plural } from "../ui/format.js";
import { html } from "../ui/html.js";
import { Ago } from "../ui/time.js";

const MARKS = { granted: ["✓", "ok", "allowed"], refused: ["✕", "bad", "refused"], expired: ["✕", "bad", "no answer in time"], over: ["○", "soft", "goal ended"], answered: ["✓", "ok", "answered"] };

export function Answered({ items }) {
  if (!items.length) return null;
  return html`<details class="fold"><summary>${plural(items.length, "answer")}, the latest <${Ago} at=${items[0].answered_at || items[0].at} /></summary>
    <ul class="plainlist">${items.map((item) => html`<${Answer} key=${item.id} item=${item} />`)}</ul></details>`;
}

function Answer({ item }) {
  const [mark, tone, word] = MARKS[item.state] || MARKS.answered;
  const by = item.answered_by || (["granted", "refused", "answered"].includes(item.state) ? "somebody" : "");
  return html`<li><span class=${tone}><span aria-hidden="true">${mark} </span>${word}</span><${AgentChip} name=${item.agent} />
    <code class="text">${item.text.split("\n")[0]}</code>
    <span class="soft">${by && `${by} · `}<${Ago} at=${item.answered_at || item.at} />${item.goal_id && html` · <a href=${at`/goals/${item.goal_id}`}>goal</a>`}</span>
    ${item.note && html`<span class="soft note">“${item.note}”</span>`}</li>`;
}

// What was answered within a day, by whom and when; folded away.

import { at } from "../api.js";
import { plural } from "../ui/format.js";
import { html } from "../ui/html.js";
import { Mark } from "../ui/mark.js";
import { Ago } from "../ui/time.js";

const MARKS = { granted: ["done", "ok", "allowed"], refused: ["failed", "bad", "refused"], answered: ["done", "ok", "answered"], seen: ["queued", "soft", "put away"] };
const KINDS = { question: "a question", dead_letter: "a message that failed", failed_goal: "a goal that failed" };

export function Answered({ items }) {
  if (!items.length) return null;
  return html`<details class="fold"><summary>${plural(items.length, "answer")} within a day, the latest <${Ago} at=${items[0].at} /></summary>
    <ul class="plainlist">${items.map((item) => html`<${Answer} key=${item.id + item.at} item=${item} />`)}</ul></details>`;
}

function Answer({ item }) {
  const [mark, tone, word] = MARKS[item.outcome] || MARKS.answered;
  return html`<li><span class=${`state ${tone}`}><${Mark} name=${mark} /> ${word}</span>
    <span class="text">${item.title || KINDS[item.kind] || item.kind}</span>
    <span class="soft">${item.by || "with the key of user"} · <${Ago} at=${item.at} />${item.goal_id && html` · <a href=${at`/goals/${item.goal_id}`}>goal</a>`}</span>
    ${item.note && html`<span class="soft note">“${item.note}”</span>`}</li>`;
}

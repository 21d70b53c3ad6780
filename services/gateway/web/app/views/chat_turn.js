// One question and what came of it: the steps of the agents, the answer, its citations, the goal it started.

import { at, get } from "../api.js";
import { setQuery } from "../router.js";
import { may } from "../store.js";
import { AgentChip } from "../ui/agent.js";
import { plural, span } from "../ui/format.js";
import { html } from "../ui/html.js";
import { Markdown, inline } from "../ui/markdown.js";
import { Outcome } from "../ui/outcome.js";
import { useLiveResource } from "../ui/resource.js";
import { Clock, Took } from "../ui/time.js";

const NODE = /^[A-Za-z0-9_-]{1,128}$/;
const SOURCES = /\n\nSources:\n((?:\[\d+\].*(?:\n|$))+)$/;
const CANCEL = /\nIt is reminder \S+\. Not what you meant\? mailroom reminders cancel \S+/; // the link below does it
const STARTED = /^That is work for the office, so I started goal /; // the card says the same, and goes on
const TAKEN = /^\(Taken as: [^\n]*\)\n+/; // the line above the answer says it
const STEPS = { asked: "is asked", begun: "began", noted: "", ended: "is done" };

export function Turn({ turn, notes, words, last, onAgain, onSay, onStop }) {
  return html`<li class="turn"><div class="question"><div class="who"><${AgentChip} name="user" person=${turn.person} /><${Clock} at=${turn.at} /></div><p>${turn.text}</p></div>
    ${notes.length > 0 && html`<${Steps} notes=${notes} open=${turn.state === "waiting"} />`}
    ${turn.state === "waiting" && words && html`<div class="reply writing"><div class="who"><${AgentChip} name="nexus" /></div><div class="text"><${Markdown} text=${words} /></div></div>`}
    ${turn.state === "waiting" && html`<p class="answering" role="status"><span class="mark" aria-hidden="true">◐</span> The front desk is answering, <${Took} from=${turn.at} />
      ${may("submit") && html`<button type="button" class="stop" disabled=${turn.stopping} onClick=${onStop}>Stop</button>`}</p>`}
    ${turn.state === "late" && html`<p class="standing">It takes longer than ten minutes. The answer appears here when it comes; you need not wait.</p>`}
    ${["refused", "failed"].includes(turn.state) && html`<div class="standing bad" role="alert"><b>${turn.state === "refused" ? "The front desk could not handle it." : "It was not sent."}</b> ${turn.reason} ${turn.cure || ""}
      <p><button type="button" onClick=${onAgain}>Ask again</button></p></div>`}
    ${turn.answer && html`<${Answer} answer=${turn.answer} asked=${turn.at} />`}
    ${last && turn.answer?.asks?.choices.length > 0 && may("submit") && html`<${Choices} choices=${turn.answer.asks.choices} onSay=${onSay} />`}</li>`;
}

/** What the answer asks back, to be chosen; the list in its text says the same. */
function Choices({ choices, onSay }) {
  return html`<div class="choices" role="group" aria-label="Answers">${choices.map((choice) => html`<button type="button" key=${choice.label} onClick=${() => onSay(choice.label)}>${choice.label}</button>`)}</div>`;
}

function Steps({ notes, open }) {
  const agents = [...new Set(notes.map((note) => note.agent))];
  return html`<details class="steps" open=${open}><summary>${plural(notes.length, "step")} of ${agents.join(", ")}</summary><ol>${notes.map((note, index) => html`<li key=${index}><${AgentChip} name=${note.agent} />
    <span class="text">${[STEPS[note.step], note.step === "ended" ? "" : note.text].filter(Boolean).join(": ")}</span><${Clock} at=${note.at} /></li>`)}</ol></details>`;
}

function Answer({ answer, asked }) {
  const failed = answer.outcome === "failed" && !answer.asks; // to ask back is no failure
  const seconds = (Date.parse(answer.at) - Date.parse(asked)) / 1000;
  return html`<div class=${`reply${failed ? " failed" : ""}`}><div class="who"><${AgentChip} name="nexus" />${answer.route && answer.route !== "nexus" && html`<span class="soft">by ${answer.route.replace("tool:", "").replaceAll("_", " ")}</span>`}
      ${failed && html`<${Outcome} status="failed" />`}<span class="soft number">${seconds > 0 && span(seconds)}</span></div>
    ${answer.understood && html`<p class="taken soft">Taken as <q>${answer.understood}</q></p>`}
    <${AnswerText} answer=${answer} />
    ${answer.goal_id && html`<${GoalCard} id=${answer.goal_id} />`}
    ${CANCEL.test(answer.text) && html`<p class="small"><a href="/timetable">Change or cancel it in the timetable</a></p>`}
    <${Citations} answer=${answer} />
    ${answer.unknowns?.length > 0 && html`<p class="soft small">Memory says nothing about: ${answer.unknowns.join(", ")}.</p>`}</div>`;
}

/** The text with its marks, such as [1], as buttons that open what they cite. */
function AnswerText({ answer }) {
  if (answer.goal_id && STARTED.test(answer.text)) return html`<p class="text">That is work for the office. The conductor plans it, and its report comes by mail.</p>`;
  const text = withoutChoices(answer).replace(TAKEN, "").replace(SOURCES, "").replace(CANCEL, "").replace(/\n*Memory says nothing about: [^\n]*\.\s*$/, "");
  const marks = /\[(\d{1,2}|[A-Za-z0-9_-]{3,128})\]/g;
  const cites = [...text.matchAll(marks)].some(([, mark]) => cited(answer, mark));
  if (!cites) return html`<div class="text"><${Markdown} text=${text} /></div>`;
  return html`<div class="text prose">${text.split(/\n{2,}|\n(?=\[)/).map((paragraph, index) => html`<p key=${index}>${withMarks(paragraph, answer, marks)}</p>`)}</div>`;
}

/** The text without the numbered list of choices, which are buttons. */
function withoutChoices({ text, asks }) {
  const listed = (asks?.choices || []).map((choice, index) => `\n${index + 1}. ${choice.label}`).join("");
  return listed && text.includes(listed) ? text.replace(listed, "") : text;
}

function cited(answer, mark) {
  if (/^\d{1,2}$/.test(mark)) return answer.citations[Number(mark) - 1];
  return answer.citations.includes(mark) ? mark : "";
}

function withMarks(text, answer, marks) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(marks)) {
    const node = cited(answer, found[1]);
    if (!node) continue;
    parts.push(...inline(text.slice(end, found.index)), html`<${Mark} number=${answer.citations.indexOf(node) + 1} source=${node} />`);
    end = found.index + found[0].length;
  }
  return [...parts, ...inline(text.slice(end))];
}

function Mark({ number, source }) {
  if (!NODE.test(source)) return html`<sup>${number}</sup>`;
  return html`<button type="button" class="cite" aria-label=${`Source ${number}`} onClick=${() => setQuery({ cite: source })}>${number}</button>`;
}

function Citations({ answer }) {
  if (!answer.citations.length) return null;
  const told = describeSources(answer);
  return html`<ol class="citations" aria-label="Sources">${answer.citations.map((source, index) => html`<li key=${source}><${Citation} source=${source} number=${index + 1} told=${told[index]} /></li>`)}</ol>`;
}

/** What each source is: as the answer's own list has it, or the beginning of what it says. */
function describeSources(answer) {
  const listed = (answer.text.match(SOURCES)?.[1] || "").split("\n").map((line) => line.match(/^\[(\d+)\] (.*?)(?:, memory node \S+)?$/));
  const own = Object.fromEntries(listed.filter(Boolean).map(([, number, text]) => [number, text]));
  return answer.citations.map((source, index) => ({ text: answer.context.find((each) => each.evidence_id === source)?.text || own[index + 1] || source, from: own[index + 1] || "" }));
}

function Citation({ source, number, told }) {
  const shown = html`<span class="number">${number}</span><span class="title">${told.text.split("\n")[0]}</span>`;
  if (/^https?:\/\//.test(source)) return html`<a class="source" href=${source} rel="noopener noreferrer nofollow" target="_blank" title=${source}>${shown}</a>`;
  if (!NODE.test(source)) return html`<span class="source">${shown}</span>`;
  return html`<button type="button" class="source" onClick=${() => setQuery({ cite: source })} title=${told.from || "Open beside"}>${shown}</button>`;
}

/** A goal that was started here, as it goes on. */
function GoalCard({ id }) {
  const concerns = ({ message, goal }) => message.goal_id === id || goal?.goal_id === id;
  const found = useLiveResource((signal) => get("/goals", { text: id, limit: 1 }, { signal }), [id], concerns, 400);
  const goal = found.data?.goals[0];
  return html`<a class="goal-card" href=${at`/goals/${id}`}><span class="soft">Started a goal</span>${goal
    ? html`<b>${goal.title}</b><span class="line"><${Outcome} status=${goal.status} outcome=${goal.outcome} waits=${goal.state === "waiting"} /><span class="number soft">${goal.ended_at ? span(goal.seconds) : html`<${Took} from=${goal.submitted_at} />`}</span>
        <span class="soft">${goal.tasks_all > 0 && `${goal.tasks_done} of ${plural(goal.tasks_all, "task")}`}</span>${goal.workers.map((worker) => html`<${AgentChip} key=${worker.agent || worker} name=${worker.agent || worker} />`)}</span>
        ${goal.summary && goal.ended_at && html`<span class="summary">${goal.summary}</span>`}`
    : html`<b class="mono">${id}</b><span class="line"><${Outcome} status="pending" /></span>`}</a>`;
}

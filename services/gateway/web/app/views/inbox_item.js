// One thing that waits: what exactly, why, what it risks, what follows; and its answers.

import { at, post } from "../api.js";
import { useKeys } from "../keyboard.js";
import { may } from "../store.js";
import { AgentChip } from "../ui/agent.js";
import { Button } from "../ui/button.js";
import { ask } from "../ui/dialog.js";
import { bytes } from "../ui/format.js";
import { html, useRef, useState } from "../ui/html.js";
import { KeyValue } from "../ui/keyvalue.js";
import { Mark } from "../ui/mark.js";
import { Markdown } from "../ui/markdown.js";
import { attempt } from "../ui/toast.js";
import { Ago, Took } from "../ui/time.js";

const CALM = 600; // ms after an answer in which keys answer nothing, so that one key never answers two things

/** By kind: the mark, the words after the agent, what exactly, the pairs below, the answers. */
const KINDS = {
  approval: { mark: "waits", asks: (item) => (item.approval.reach.length ? "asks to reach the network" : "asks for approval"), what: (item) => item.approval.what, pairs: approvalPairs, answers: ApprovalAnswers },
  question: { mark: "waits", asks: () => "asks you", what: (item) => item.asked || item.question.body, prose: true, pairs: questionPairs, answers: QuestionAnswers },
  dead_letter: { mark: "failed", asks: () => "could not handle a message", what: (item) => item.dead_letter.reason, pairs: deadPairs, answers: DeadLetterAnswers },
  failed_goal: { mark: "failed", asks: () => "A goal failed", what: (item) => item.text.replace(/^task: /, ""), prose: true, pairs: goalPairs, answers: GoalAnswers },
};

let lastAnswer = 0;

export function Item({ item, current, onSelect, onLater, onDone }) {
  const kind = KINDS[item.kind];
  const select = () => current || onSelect();
  const text = kind.what(item);
  return html`<article data-item=${item.id} class=${`item ${item.kind}${current ? " current" : ""}`} aria-current=${current ? "true" : undefined} aria-label=${item.title} tabindex=${current ? 0 : -1} onClick=${select} onFocus=${select}>
    <header><${Mark} name=${kind.mark} />${item.agent && html`<${AgentChip} name=${item.agent} />`}<span class="asks">${kind.asks(item)}</span>
      <${Of} item=${item} />${item.approval && !current && html`<${Risk} grade=${item.approval.risk} />`}<span class="when"><${Ago} at=${item.since} />${item.approval && html` · no answer <${Ago} at=${item.approval.expires_at} /> counts as no`}</span></header>
    ${!current && html`<p class="what line">${text.split("\n")[0]}</p>`}
    ${current && (kind.prose ? html`<div class="what"><${Markdown} text=${text} /></div>` : html`<pre class="what" tabindex="0" aria-label="What exactly">${text}</pre>`)}
    ${current && html`<${KeyValue} pairs=${kind.pairs(item)} /><${kind.answers} item=${item} onLater=${onLater} onDone=${onDone} />`}</article>`;
}

/** The goal it belongs to, in the person's own words. */
function Of({ item }) {
  const words = item.approval?.goal || item.goal?.title || (item.asked && item.title) || (item.goal_id && "its goal");
  return words ? html`<a class="of" href=${at`/goals/${item.goal_id}`}>${words}</a>` : null;
}

function approvalPairs({ approval }) {
  return [
    ["Risk", html`<${Risk} grade=${approval.risk} /> ${approval.risk_reason}`],
    ["Why", approval.reach.length ? html`Commands have no network. This one needs ${approval.opens}.` : approval.why],
    ["Rule", approval.rule && html`<code>${approval.rule}</code>`],
    ["If yes", approval.on_yes], ["If no", approval.on_no],
  ];
}

const GRADES = { low: 1, medium: 2, high: 3 };

/** A grade as a word and as filled steps, so that it is not told by its colour alone. */
export function Risk({ grade }) {
  return html`<span class=${`risk ${grade}`}><span class="levels" aria-hidden="true">${[1, 2, 3].map((level) => html`<i key=${level} class=${level <= GRADES[grade] ? "on" : ""}></i>`)}</span>${grade}</span>`;
}

function questionPairs({ question, title }) {
  if (!question) return [["Goal", title], ["If answered", "The goal goes on with what you say."]];
  return [["Subject", question.subject], ["Until then", "What asked waits. Other work goes on."]];
}

function deadPairs({ dead_letter: letter }) {
  return [
    ["Message", html`<a class="evidence" href=${at`/traffic?subject=${letter.subject}`}>${letter.subject}</a> number ${letter.stream_seq} of ${letter.stream}, ${bytes(letter.original_size)}`],
    ["Tried", letter.deliveries === 1 ? "once" : `${letter.deliveries} times`],
    ["If sent again", "The agent gets the same message once more. If the cause is still there it comes back."],
    ["If dropped", "Nobody handles it. The log keeps it."],
  ];
}

function goalPairs({ goal }) {
  return [["Tasks", `${goal.tasks_done} of ${goal.tasks_all} done, ${goal.tasks_failed} failed`], ["Took", html`<${Took} from=${goal.submitted_at} to=${goal.ended_at} />`], ["If retried", "A new goal with the same words begins."]];
}

/** A function that answers once: not by a key that is held, and not just after another answer. */
function useAnswer(onDone) {
  const sending = useRef(false);
  return async (run, done) => {
    if (sending.current) return;
    sending.current = true;
    const answer = await attempt(run, done);
    sending.current = false;
    if (answer === undefined) return;
    lastAnswer = Date.now();
    await onDone();
  };
}

/** Keys of answers, which do nothing while a key is held or just after another answer. */
function useAnswerKeys(keys) {
  const calm = (run) => (event) => (event.repeat || Date.now() - lastAnswer < CALM ? undefined : run(event));
  useKeys(Object.fromEntries(Object.entries(keys).map(([key, { label, run }]) => [key, { label, run: calm(run) }])));
}

function ApprovalAnswers({ item: { approval }, onLater, onDone }) {
  const answer = useAnswer(onDone);
  const [scope, setScope] = useState("command");
  const [hosts, setHosts] = useState("");
  const named = hosts.split(/[\s,]+/).filter(Boolean);
  const ready = may(approval.needs) && (!approval.needs_hosts || named.length > 0);
  const yes = () => ready && answer(() => post(at`/approvals/${approval.approval_id}`, { granted: true, ...(approval.reach.length ? { scope, hosts: named } : {}) }), "Allowed.");
  const no = async () => {
    const note = await ask({ title: "Refuse", text: approval.what.length > 300 ? `${approval.what.slice(0, 300)} … (the whole is in the inbox)` : approval.what, field: "A note for the agent: what it should do instead (may stay empty)", required: false, yes: "Refuse" });
    if (note !== null) await answer(() => post(at`/approvals/${approval.approval_id}`, { granted: false, note }), "Refused.");
  };
  useAnswerKeys({ ...(may(approval.needs) ? { y: { label: "yes: allow", run: yes }, n: { label: "no: refuse", run: no } } : {}), l: { label: "later", run: onLater } });
  return html`${approval.reach.length > 0 && html`<div class="choice"><label>A yes is for <select value=${scope} onChange=${(event) => setScope(event.target.value)}>
      <option value="command">this command</option><option value="task">its task</option><option value="goal">its whole goal</option></select></label>
      <label>${approval.needs_hosts ? "Hosts it may reach" : "Further hosts"} <input value=${hosts} placeholder="example.org" onInput=${(event) => setHosts(event.target.value)} /></label></div>`}
    <div class="actions"><${Button} kind="primary" keys="y" disabled=${!ready} onClick=${yes}>Yes, allow<//>
      <${Button} keys="n" disabled=${!may(approval.needs)} onClick=${no}>No<//><${Button} keys="l" onClick=${onLater}>Later<//></div>
    ${!may(approval.needs) && html`<p class="soft">Answering this needs the scope <code>${approval.needs}</code>.</p>`}`;
}

function QuestionAnswers({ item, onLater, onDone }) {
  const answer = useAnswer(onDone);
  const [text, setText] = useState("");
  const field = useRef(null);
  const send = (event) => {
    event.preventDefault();
    const say = text.trim();
    if (say) answer(() => (item.question ? post("/mail", { body: say, reply_to: item.question.number }) : post(at`/goals/${item.goal_id}/say`, { text: say })), "Sent.");
  };
  const sendByKey = (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && send(event);
  const dismiss = () => answer(() => post(at`/inbox/${item.id}/seen`), "Put away.");
  useAnswerKeys({ a: { label: "answer", run: () => field.current?.focus() }, n: { label: "no answer needed", run: dismiss }, l: { label: "later", run: onLater } });
  return html`<form class="reply" onSubmit=${send}><label class="visually-hidden" for=${`reply-${item.id}`}>Your answer to ${item.agent}</label>
    <textarea id=${`reply-${item.id}`} ref=${field} rows="3" placeholder="Your answer" value=${text} disabled=${!may("submit")} onInput=${(event) => setText(event.target.value)} onKeyDown=${sendByKey}></textarea>
    <div class="actions"><button class="primary" disabled=${!may("submit") || !text.trim()}>Answer<kbd>Ctrl ↵</kbd></button>
      <${Button} keys="n" disabled=${!may("submit")} onClick=${dismiss}>No answer needed<//><${Button} keys="l" onClick=${onLater}>Later<//></div></form>`;
}

/** Sending again, and dropping, need the admin's key, which the gateway never opens. */
function DeadLetterAnswers({ item, onLater, onDone }) {
  const answer = useAnswer(onDone);
  const allowed = may("submit");
  const { number } = item.dead_letter;
  const seen = () => answer(() => post(at`/inbox/${item.id}/seen`), "Put away.");
  useAnswerKeys({ ...(allowed ? { n: { label: "seen, nothing to do", run: seen } } : {}), l: { label: "later", run: onLater } });
  return html`<p>On the office's machine, <code>mailroom dead retry ${number}</code> sends it again, and <code>mailroom dead drop ${number}</code> drops it.</p>
    <div class="actions"><${Button} keys="n" disabled=${!allowed} onClick=${seen}>Seen<//><${Button} keys="l" onClick=${onLater}>Later<//></div>`;
}

function GoalAnswers({ item, onLater, onDone }) {
  const answer = useAnswer(onDone);
  const allowed = may("submit");
  const again = () => answer(() => post(at`/goals/${item.goal_id}/retry`), "Begun again, as a new goal.");
  const seen = () => answer(() => post(at`/inbox/${item.id}/seen`), "Put away.");
  useAnswerKeys({ ...(allowed ? { r: { label: "retry", run: again }, n: { label: "seen, nothing to do", run: seen } } : {}), l: { label: "later", run: onLater } });
  return html`<div class="actions"><a class="button primary" href=${at`/goals/${item.goal_id}`}>See why</a><${Button} keys="r" disabled=${!allowed} onClick=${again}>Retry<//>
    <${Button} keys="n" disabled=${!allowed} onClick=${seen}>Seen<//><${Button} keys="l" onClick=${onLater}>Later<//></div>`;
}

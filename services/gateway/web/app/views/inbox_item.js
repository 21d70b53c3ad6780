// One thing that waits: what exactly, why, what it risks, what follows; and its answers.

import { at, post, remove } from "../api.js";
import { useKeys } from "../keyboard.js";
import { may } from "../store.js";
import { AgentChip } from "../ui/agent.js";
import { Button } from "../ui/button.js";
import { ask } from "../ui/dialog.js";
import { html, useRef, useState } from "../ui/html.js";
import { KeyValue } from "../ui/keyvalue.js";
import { Markdown } from "../ui/markdown.js";
import { attempt } from "../ui/toast.js";
import { Ago, Clock } from "../ui/time.js";

const CALM = 600; // ms after an answer in which keys answer nothing, so that one key never answers two things

const KINDS = {
  approval: { mark: "⏸", line: "asks to run this" },
  question: { mark: "⏸", line: "asks" },
  dead_letter: { mark: "✕", line: "could not handle a message" },
  goal: { mark: "✕", line: "did not reach a goal" },
};

let lastAnswer = 0;

export function Item({ item, current, onSelect, onLater, onDone }) {
  const kind = KINDS[item.kind] || KINDS.question;
  const select = () => current || onSelect();
  return html`<article class=${`item ${item.kind}${current ? " current" : ""}`} aria-current=${current ? "true" : undefined} aria-label=${item.title} tabindex=${current ? 0 : -1} onClick=${select} onFocus=${select}>
    <header><span class="mark" aria-hidden="true">${kind.mark}</span><${AgentChip} name=${item.agent} /><span class="asks">${item.reach?.length ? "asks to reach the network" : kind.line}</span>
      ${item.goal_id && html`<a class="of" href=${at`/goals/${item.goal_id}`}>${item.goal_text || "its goal"}</a>`}
      <span class="when"><${Ago} at=${item.at} />${item.expires_at && html` · counts as no <${Ago} at=${item.expires_at} />`}</span></header>
    <${Subject} item=${item} open=${current} />
    ${current && html`<${Details} item=${item} />`}
    ${current && html`<${Answers} item=${item} onLater=${onLater} onDone=${onDone} />`}</article>`;
}

/** What exactly: a command as it is, a question as text. */
function Subject({ item, open }) {
  if (item.kind === "question") return open ? html`<div class="what"><${Markdown} text=${item.text} /></div>` : html`<p class="what line">${item.text}</p>`;
  return html`<pre class=${`what${open ? "" : " line"}`}>${open ? item.text : item.text.split("\n")[0]}</pre>`;
}

function Details({ item }) {
  return html`<${KeyValue} pairs=${[
    ["Why", item.why],
    ["Risk", item.risk],
    ["Reach", item.reach?.length ? item.reach.join(", ") : ""],
    ["If yes", item.on_yes],
    ["If no", item.on_no],
    ["Rule", item.rule && html`<code>${item.rule}</code>`],
    ["Asked", html`<${Clock} at=${item.at} />`],
  ]} />`;
}

function Answers(props) {
  const { kind } = props.item;
  if (kind === "approval") return html`<${ApprovalAnswers} ...${props} />`;
  if (kind === "question") return html`<${QuestionAnswers} ...${props} />`;
  if (kind === "dead_letter") return html`<${DeadLetterAnswers} ...${props} />`;
  return html`<${GoalAnswers} ...${props} />`;
}

/** A function that answers once, not by a key that is held and not just after another answer. */
function useAnswer(onDone) {
  const sent = useRef(false);
  return async (run, done, event) => {
    if (sent.current || event?.repeat || Date.now() - lastAnswer < CALM) return;
    sent.current = true;
    const answer = await attempt(run, done);
    sent.current = false;
    if (answer === undefined) return;
    lastAnswer = Date.now();
    await onDone();
  };
}

function ApprovalAnswers({ item, onLater, onDone }) {
  const answer = useAnswer(onDone);
  const [scope, setScope] = useState("command");
  const [hosts, setHosts] = useState("");
  const allowed = may("approve");
  const network = item.reach?.includes("network");
  const send = async (granted, event) => {
    const note = granted ? "" : await ask({ title: "Refuse", text: item.text.slice(0, 300), field: "What should it do instead? (may stay empty)", required: false, yes: "Refuse" });
    if (note === null) return;
    const body = { granted, note, ...(granted && item.reach?.length ? { scope, hosts: hosts.split(/[\s,]+/).filter(Boolean) } : {}) };
    await answer(() => post(at`/approvals/${item.ref}`, body), granted ? "Allowed." : "Refused.", event);
  };
  useKeys(allowed ? { y: { label: "yes: allow", run: (event) => send(true, event) }, n: { label: "no: refuse", run: (event) => send(false, event) }, l: { label: "later", run: onLater } } : {});
  return html`${item.reach?.length > 0 && html`<div class="choice"><label>For <select value=${scope} onChange=${(event) => setScope(event.target.value)}>
      <option value="command">this command</option><option value="task">this task</option><option value="goal">the whole goal</option></select></label>
      ${network && html`<label>Hosts <input value=${hosts} placeholder="example.org" onInput=${(event) => setHosts(event.target.value)} /></label>`}</div>`}
    <div class="actions"><${Button} kind="primary" keys="y" disabled=${!allowed || (network && !hosts.trim())} onClick=${(event) => send(true, event)}>Yes, allow<//>
      <${Button} keys="n" disabled=${!allowed} onClick=${(event) => send(false, event)}>No<//>
      <${Button} keys="l" onClick=${onLater}>Later<//></div>`;
}

function QuestionAnswers({ item, onLater, onDone }) {
  const answer = useAnswer(onDone);
  const [text, setText] = useState("");
  const field = useRef(null);
  const allowed = may("submit");
  const send = (event) => {
    event.preventDefault();
    if (text.trim()) answer(() => post(at`/inbox/${item.ref}/answer`, { text: text.trim() }), "Sent.");
  };
  const sendByKey = (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && send(event);
  useKeys({ a: { label: "answer", run: () => field.current?.focus() }, l: { label: "later", run: onLater } });
  return html`<form class="reply" onSubmit=${send}><label class="visually-hidden" for=${`reply-${item.id}`}>Your answer to ${item.agent}</label>
    <textarea id=${`reply-${item.id}`} ref=${field} rows="3" placeholder="Your answer" value=${text} disabled=${!allowed} onInput=${(event) => setText(event.target.value)} onKeyDown=${sendByKey}></textarea>
    <div class="actions"><button class="primary" disabled=${!allowed || !text.trim()}>Answer<kbd>Ctrl ↵</kbd></button><${Button} keys="l" onClick=${onLater}>Later<//></div></form>`;
}

function DeadLetterAnswers({ item, onLater, onDone }) {
  const answer = useAnswer(onDone);
  const allowed = may("admin");
  const again = (event) => answer(() => post(at`/dead-letters/${item.ref}/retry`), "Sent again.", event);
  const drop = async (event) => {
    const sure = await ask({ title: "Delete this message", text: "It will not be handled. The audit keeps it.", yes: "Delete", danger: true });
    if (sure) await answer(() => remove(at`/dead-letters/${item.ref}`), "Deleted.", event);
  };
  useKeys(allowed ? { r: { label: "send again", run: again }, x: { label: "delete", run: drop }, l: { label: "later", run: onLater } } : { l: { label: "later", run: onLater } });
  return html`<div class="actions"><${Button} kind="primary" keys="r" disabled=${!allowed} onClick=${again}>Send again<//>
    <${Button} kind="danger" keys="x" disabled=${!allowed} onClick=${drop}>Delete<//><${Button} keys="l" onClick=${onLater}>Later<//></div>`;
}

function GoalAnswers({ item, onLater, onDone }) {
  const answer = useAnswer(onDone);
  const allowed = may("submit");
  const again = (event) => answer(() => post(at`/goals/${item.goal_id}/retry`), "Begun again, as a new goal.", event);
  useKeys(allowed ? { r: { label: "retry", run: again }, l: { label: "later", run: onLater } } : { l: { label: "later", run: onLater } });
  return html`<div class="actions"><a class="button" href=${at`/goals/${item.goal_id}`}>See why</a><${Button} keys="r" disabled=${!allowed} onClick=${again}>Retry<//><${Button} keys="l" onClick=${onLater}>Later<//></div>`;
}

// What a goal came to, in one sentence, and what it rests on; what it waits for, if it waits.

import { at, post } from "../../api.js";
import { thoughts } from "../../live.js";
import { may, now } from "../../store.js";
import { AgentChip } from "../../ui/agent.js";
import { Button } from "../../ui/button.js";
import { plural, span } from "../../ui/format.js";
import { html } from "../../ui/html.js";
import { Markdown } from "../../ui/markdown.js";
import { markClass, markOf } from "../../ui/outcome.js";
import { attempt } from "../../ui/toast.js";
import { Ref } from "./ref.js";

const SHOWN = 4; // findings before "and N more"

export function Answer({ goal, onOpen, reload }) {
  const waiting = goal.approvals.filter((each) => each.state === "waiting");
  const kind = markClass(markOf({ status: goal.status, outcome: goal.outcome, waits: waiting.length > 0 }));
  const [said, sources] = split(sentence(goal));
  return html`<section class=${`answer ${kind}`} aria-label="Answer">
    ${waiting.map((each) => html`<${Question} key=${each.approval_id} asked=${each} reload=${reload} />`)}
    ${!waiting.length && html`<div class="says"><${Markdown} text=${said} /></div>`}${!waiting.length && sources && html`<${Sources} text=${sources} goal=${goal} />`}
    <${Thinking} goal=${goal} /><dl class="proof"><${Tests} goal=${goal} onOpen=${onOpen} /><${Findings} goal=${goal} onOpen=${onOpen} />
      <${NotChecked} goal=${goal} />${goal.review && html`<${Line} name="Review">${goal.review}<//>`}<${Said} goal=${goal} /></dl></section>`;
}

const STALE = 60000; // ms after which a model that says nothing more is not shown as writing

/** What models write for the tasks of the goal, as they do. */
function Thinking({ goal }) {
  if (goal.state === "ended") return null;
  const agents = new Map(goal.rows.filter((row) => row.task_id).map((row) => [row.task_id, row.agent]));
  const told = Object.entries(thoughts.value).filter(([id, each]) => each.goal_id === goal.goal_id && [undefined, each.agent].includes(agents.get(id)) && now.value - each.at < STALE);
  return told.map(([id, each]) => html`<p key=${id} class="thinking"><${AgentChip} name=${each.agent} /> <span class="soft">writes</span><code tabindex="0" role="region" aria-label=${`What the model of ${each.agent} writes`}>${each.text.trim()}</code></p>`);
}

function sentence(goal) {
  if (goal.state === "ended") return goal.answer || goal.reason || "It ended without an answer.";
  if (goal.state === "planning") return goal.thinking ? "A model is making the plan." : "The conductor is planning it.";
  const open = goal.tasks.filter((task) => task.status === "in_progress" && !task.earlier);
  const ended = goal.tasks.filter((task) => task.ended_at && !task.earlier).length;
  const who = [...new Set(open.map((task) => task.assignee))].join(", ");
  if (goal.state === "review") return "All tasks have ended. The critic reviews what they say.";
  if (goal.thinking) return "A model is writing the answer from the results.";
  return `${who ? `At work: ${who}. ` : ""}${ended} of ${plural(goal.tasks.length, "task")} ended.`;
}

/** An answer, and the lines after it that say which model wrote it and on which tasks it rests. */
function split(text) {
  const found = text.match(/^([^]*?)\n\n\(Written by the model ([^\n]+) from the results of the tasks\.\)\n?([^]*)$/);
  return found ? [found[1], { model: found[2], tasks: [...found[3].matchAll(/^\[(.+?)\] .*, task (\S+)$/gm)] }] : [text, null];
}

function Sources({ text }) {
  return html`<p class="sources">written by <code>${text.model.replace(/^scripted:.*\//, "scripted:")}</code> from ${text.tasks.map(([, name, id]) => html`<a class="evidence" key=${id} href=${`?row=${encodeURIComponent(id)}`}>${name}</a> `)}</p>`;
}

function Question({ asked, reload }) {
  const answer = (granted) => () => attempt(() => post(at`/approvals/${asked.approval_id}`, { granted }), granted ? "Allowed" : "Refused").then(reload);
  return html`<div class="question"><p><${AgentChip} name=${asked.agent} /> <b>waits for you.</b> May it do this?</p><pre>${asked.what}</pre>
    ${asked.why && html`<p class="soft">${asked.why}</p>`}
    ${may(asked.needs) && html`<p class="actions"><${Button} kind="primary" onClick=${answer(true)}>Allow<//><${Button} kind="danger" onClick=${answer(false)}>Refuse<//><a class="button" href="/">More, in the inbox</a></p>`}</div>`;
}

function Line({ name, children }) {
  return html`<div><dt>${name}</dt><dd>${children}</dd></div>`;
}

function Tests({ goal, onOpen }) {
  return goal.tests.map((run, index) => html`<${Line} key=${index} name="Tests">${run.incomplete ? `${run.problem} (${counts(run)})` : run.problem || `${counts(run)} in ${span(run.seconds)}`}${run.command && html` · <code>${run.command}</code>`}${
    run.interpreter && !run.problem && html` · ${run.interpreter}`} ${run.log_path && html`<${Ref} name=${run.log_path} onOpen=${onOpen} />`}
    ${run.failures.length > 0 && html`<ul class="plainlist failures">${run.failures.slice(0, SHOWN).map((each) => html`<li key=${each.test}><span class="bad" aria-hidden="true">✕</span> <b>${each.test.split("::").pop()}</b> <${Ref} name=${each.source} title=${each.test} onOpen=${onOpen} />
      <code class="soft">${each.message.split("\n")[0].slice(0, 160)}</code></li>`)}</ul>`}<//>`);
}

function counts(run) {
  if (run.passed < 0) return "Nothing could be counted";
  const parts = [`${run.passed} passed`, `${run.failed} failed`];
  if (run.errors > 0) parts.push(plural(run.errors, "error"));
  if (run.skipped > 0) parts.push(`${run.skipped} skipped`);
  return parts.join(", ");
}

function Findings({ goal, onOpen }) {
  if (!goal.findings.length) return null;
  const by = (severity) => goal.findings.filter((each) => each.severity === severity).length;
  const words = ["high", "medium", "low"].filter(by).map((severity) => `${by(severity)} ${severity}`);
  const more = goal.findings_total - Math.min(SHOWN, goal.findings.length);
  return html`<${Line} name="Findings">${words.join(", ")}.<ul class="plainlist">${goal.findings.slice(0, SHOWN).map(
    (each, index) => html`<li key=${index}>${each.message} <${Ref} name=${each.line ? `${each.file}:${each.line}` : each.file} onOpen=${onOpen} /></li>`,
  )}</ul>${more > 0 && html`<a href="?tab=evidence">and ${more} more</a>`}<//>`;
}

function NotChecked({ goal }) {
  if (!goal.not_checked.length) return null;
  return html`<${Line} name="Not checked"><ul class="plainlist">${goal.not_checked.slice(0, 6).map(
    (each, index) => html`<li key=${index}>${each.what}: ${each.why}${each.cure && html` <span class="soft">${each.cure}</span>`}</li>`,
  )}</ul>${goal.not_checked.length > 6 && html`<span class="soft">and ${goal.not_checked.length - 6} more, in the report</span>`}<//>`;
}

function Said({ goal }) {
  return goal.instructions.filter((each) => each.text).map((each) => html`<${Line} key=${each.id} name="You said">${each.text}<//>`);
}

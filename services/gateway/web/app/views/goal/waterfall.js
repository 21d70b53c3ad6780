// The waterfall: tasks, attempts, model calls, actions, commands and waiting, each a bar in its agent's hue.

import { useKeys } from "../../keyboard.js";
import { now } from "../../store.js";
import { AgentChip, agentColour } from "../../ui/agent.js";
import { plural, span } from "../../ui/format.js";
import { html, useMemo, useState } from "../../ui/html.js";
import { Rows } from "../../ui/rows.js";
import { makeScale } from "./scale.js";

const ROW = 34;
const AS_ONE = 60; // rows that are shown without a box of their own that scrolls
const OPEN_ALL = 24; // rows up to which everything is unfolded at first
const WORDS = { model: "thinks", memory: "memory", effect: "effect", command: "$", attempt: "", action: "" };
const FAILED = new Set(["failed", "killed", "timeout", "refused", "cancelled"]);

export function Waterfall({ goal, selected, onSelect }) {
  const [closed, setFolded] = useState(() => foldAtFirst(prepare(goal, Date.now()), selected));
  const [failedOnly, setFailedOnly] = useState(false);
  const [collapse, setCollapse] = useState(true);
  const [table, setTable] = useState(false);
  const running = goal.state !== "ended";
  const end = running ? now.value : 0;
  const rows = useMemo(() => prepare(goal, end), [goal, end]);
  const shown = useMemo(() => visible(rows, closed, failedOnly), [rows, closed, failedOnly]);
  const scale = useMemo(() => makeScale(rows, ...bounds(goal, rows), collapse), [rows, collapse]);
  const index = shown.findIndex((row) => row.id === selected);
  const fold = (id, close) => {
    const next = new Set(closed);
    if (close) next.add(id);
    else next.delete(id);
    setFolded(next);
  };
  const current = shown[index];
  useKeys({
    ArrowRight: { label: "unfold", run: () => current?.inside && fold(current.id, false) },
    ArrowLeft: { label: "fold", run: () => current?.inside && fold(current.id, true) },
    f: { label: "only what failed", run: () => setFailedOnly(!failedOnly) },
    e: { label: "fold or unfold all", run: () => setFolded(closed.size ? new Set() : new Set(rows.filter((row) => row.inside).map((row) => row.id))) },
  });
  const failed = listFailed(rows).length;
  return html`<section aria-label="Timeline"><div class="tools">
      <label class=${failed ? "" : "faint"}><input type="checkbox" checked=${failedOnly} disabled=${!failed && !failedOnly} onChange=${() => setFailedOnly(!failedOnly)} /> only what failed${failed > 0 && ` (${failed})`}</label>
      ${(scale.idle.length > 0 || !collapse) && html`<label><input type="checkbox" checked=${collapse} onChange=${() => setCollapse(!collapse)} /> idle collapsed</label>`}
      <button type="button" class="plain" onClick=${() => setFolded(closed.size ? new Set() : new Set(rows.filter((row) => row.inside).map((row) => row.id)))}>${closed.size ? "Unfold all" : "Fold all"}</button>
      <button type="button" class="plain" aria-pressed=${String(table)} onClick=${() => setTable(!table)}>Table</button></div>
    ${table ? html`<${Table} rows=${shown} start=${scale.start} onSelect=${onSelect} />` : html`<div class="waterfall">
      <${Axis} scale=${scale} />
      <${Rows} label="What happened, in order" count=${shown.length} height=${ROW} tall=${shown.length <= AS_ONE ? "none" : "70vh"} selected=${index}
        keyOf=${(at) => shown[at].id} onSelect=${(at) => onSelect(shown[at].id)} onOpen=${(at) => onSelect(shown[at].id)}
        render=${(at) => html`<${Line} row=${shown[at]} scale=${scale} closed=${closed.has(shown[at].id)} onFold=${fold} />`} />
      <${Legend} rows=${rows} /></div>`}
    ${goal.rows_total > goal.rows.length && html`<p class="soft">${plural(goal.rows_total - goal.rows.length, "further row")}: each task has its own at <code>mailroom show TASK --thoughts</code></p>`}
    ${!shown.length && html`<p class="soft">${failedOnly ? "Nothing failed." : "Nothing has begun yet."}</p>`}</section>`;
}

/** The rows that failed. What a task tried on its way, such as tests that fail, is no failure if the task did well. */
function listFailed(rows) {
  const bad = new Set(rows.filter((row) => row.kind === "task" && FAILED.has(row.status)).map((row) => row.task_id));
  const inner = new Set(["command", "action", "model", "memory", "effect"]);
  return rows.filter((row) => FAILED.has(row.status) && (!inner.has(row.kind) || bad.has(row.task_id)));
}

/** Rows with their times in ms, their depth and whether others are inside. */
function prepare(goal, end) {
  const depth = new Map();
  const parents = new Set(goal.rows.map((row) => row.parent).filter(Boolean));
  return goal.rows.map((row) => {
    const level = row.parent ? (depth.get(row.parent) ?? -1) + 1 : 0;
    depth.set(row.id, level);
    const from = Date.parse(row.start);
    const to = row.end ? Date.parse(row.end) : Math.max(end || Date.parse(goal.ended_at) || from, from);
    return { ...row, from, to: Math.max(from, to), level, inside: parents.has(row.id) };
  });
}

function bounds(goal, rows) {
  const start = rows.reduce((first, row) => Math.min(first, row.from), Date.parse(goal.submitted_at));
  const end = rows.reduce((last, row) => Math.max(last, row.to), start + 1);
  return [start, end];
}

/** At first tasks are folded, unless there is little, or one of them failed, runs, or holds what is selected. */
function foldAtFirst(rows, selected) {
  const closed = new Set();
  if (rows.length <= OPEN_ALL) return closed;
  const wanted = rows.find((row) => row.id === selected);
  for (const row of rows) {
    if (!row.inside || row.status === "running" || (FAILED.has(row.status) && row.kind !== "task")) continue;
    if (wanted && (wanted.task_id === row.task_id || row.id === wanted.parent)) continue;
    closed.add(row.id);
  }
  return closed;
}

function visible(rows, closed, failedOnly) {
  if (failedOnly) return onlyFailed(rows);
  const hidden = new Set();
  return rows.filter((row) => {
    const out = hidden.has(row.parent);
    if (out || closed.has(row.id)) hidden.add(row.id);
    return !out;
  });
}

/** What failed, or what did on the way if nothing did, and what it is part of. */
function onlyFailed(rows) {
  const parents = new Map(rows.map((row) => [row.id, row.parent]));
  const kept = new Set();
  const failed = listFailed(rows);
  for (const row of failed.length ? failed : rows.filter((each) => FAILED.has(each.status))) for (let id = row.id; id && !kept.has(id); id = parents.get(id)) kept.add(id);
  return rows.filter((row) => kept.has(row.id));
}

function Axis({ scale }) {
  return html`<div class="axis" aria-hidden="true"><span>Agent and step</span><div>${scale.ticks.map(
    (tick) => html`<i key=${tick.place} style=${{ left: `${tick.place * 100}%` }}>${tick.label}</i>`,
  )}${scale.idle.map((each) => html`<em key=${each.from} title=${`nothing but waiting for ${span((each.to - each.from) / 1000)}`} style=${{ left: `${each.place * 100}%`, width: `${each.width * 100}%` }}>⋯</em>`)}</div></div>`;
}

const MARKS = { failed: "✕", timeout: "✕", killed: "✕", cancelled: "✕", refused: "✕", done_with_findings: "▲", not_checked: "▲", running: "◐", waiting: "‖" };
const SPOKEN = { killed: "its process was killed", done_with_findings: "done, with findings", not_checked: "not checked" };

function Line({ row, scale, closed, onFold }) {
  const toggle = (event) => {
    event.stopPropagation();
    onFold(row.id, !closed);
  };
  const top = row.level === 0 || row.kind === "task" || row.kind === "approval";
  const mark = row.kind === "approval" && row.status === "waiting" ? "‖" : MARKS[row.status];
  return html`<span class=${`name${top ? "" : " inner"}`} style=${{ "--level": row.level }}>
      ${row.inside ? html`<span class="fold" aria-hidden="true" onClick=${toggle}>${closed ? "▸" : "▾"}</span>` : html`<span class="fold"></span>`}
      ${top && html`<${AgentChip} name=${row.agent} />`}<span class="text">${WORDS[row.kind] ? html`<span class="faint">${WORDS[row.kind]} </span>` : ""}${nameOf(row)}</span></span>
    <span class="track"><${Bar} row=${row} scale=${scale} mark=${mark} /><span class="visually-hidden">, ${SPOKEN[row.status] || row.status}, ${took(row)}</span></span>`;
}

/** What a row is called; a command by what was run, a model without the way to it. */
export function nameOf(row) {
  if (row.kind === "approval") return `Approve: ${row.name}`;
  if (row.kind === "command") return (row.input || row.name).replace(/\s+/g, " ").replace(/^\S*\//, "");
  if (row.kind === "model") return row.name.startsWith("scripted:") ? "a script" : row.name.replace(/^\w+:/, "");
  return row.name.replace(/^Plan from the playbook /, "Plan: ");
}

export function took(row) {
  return row.end ? span((row.to - row.from) / 1000) : `${span((row.to - row.from) / 1000)} so far`;
}

function Bar({ row, scale, mark }) {
  const left = scale.x(row.from);
  const width = Math.max(0, scale.x(row.to) - left);
  const classes = ["bar", row.kind, row.level > 0 && row.kind !== "approval" ? "thin" : "", FAILED.has(row.status) ? "bad" : "", row.end ? "" : "goes"].filter(Boolean).join(" ");
  const style = { "--c": agentColour(row.agent), left: `min(${left * 100}%, 100% - 3px)`, width: `max(3px, ${width * 100}%)` };
  const late = left + width > 0.84;
  const side = !late ? "after" : left > 0.2 ? "before" : "over";
  return html`<i class="grid" style=${gridOf(scale)}></i><span class=${classes} style=${style}><small class=${side}>${mark && html`<b>${mark}</b> `}${row.status === "killed" ? "killed after " : ""}${took(row)}</small></span>`;
}

function gridOf(scale) {
  const lines = scale.ticks.filter((tick) => tick.place > 0).map((tick) => `linear-gradient(var(--line), var(--line)) ${tick.place * 100}% 0 / 1px 100% no-repeat`);
  const idle = scale.idle.map((each) => `linear-gradient(90deg, var(--sunk), var(--sunk)) ${(each.place / (1 - each.width || 1)) * 100}% 0 / ${each.width * 100}% 100% no-repeat`);
  return { background: [...lines, ...idle].join(", ") };
}

function Legend({ rows }) {
  const has = (test) => rows.some(test);
  return html`<div class="legend" aria-hidden="true"><span><i></i>working</span>${has((row) => row.level > 0) && html`<span><i class="thin"></i>a step of it</span>`}
    ${has((row) => row.kind === "waiting") && html`<span><i class="waiting"></i>waits for a process</span>`}
    ${has((row) => row.kind === "approval") && html`<span><i class="approval"></i>waits for a person</span>`}
    ${has((row) => FAILED.has(row.status)) && html`<span><i class="bad"></i>failed</span>`}</div>`;
}

function Table({ rows, start, onSelect }) {
  return html`<div class="tablebox"><table><caption class="visually-hidden">What happened, in order</caption><thead><tr><th>What</th><th>Who</th><th>Kind</th><th>From</th><th>Took</th><th>Came to</th></tr></thead>
    <tbody>${rows.slice(0, 1000).map((row) => html`<tr key=${row.id}><td style=${{ paddingLeft: `${row.level * 16}px` }}><button type="button" class="plain" onClick=${() => onSelect(row.id)}>${nameOf(row)}</button></td>
      <td>${row.agent}</td><td>${row.kind}</td><td class="mono">+${((row.from - start) / 1000).toFixed(3)} s</td><td class="mono">${took(row)}</td><td>${SPOKEN[row.status] || row.status}</td></tr>`)}</tbody></table></div>`;
}

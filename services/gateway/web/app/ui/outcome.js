// What a task or a goal came to, or is doing: a mark, a word and a colour. Never a colour alone.

import { html } from "./html.js";
import { Mark } from "./mark.js";

/** By name: the mark, the word, the class of its colour. */
const KINDS = {
  done: ["done", "Done", "done"],
  findings: ["findings", "Done, with findings", "findings"],
  unchecked: ["findings", "Not checked", "unchecked"],
  failed: ["failed", "Failed", "failed"],
  stopped: ["failed", "Stopped", ""],
  late: ["failed", "Out of time", "failed"],
  waits: ["waits", "Waits for you", "waits"],
  working: ["working", "At work", "working"],
  review: ["working", "In review", "working"],
  queued: ["queued", "Not begun", ""],
};
const BY_OUTCOME = { done: "done", done_with_findings: "findings", not_checked: "unchecked", failed: "failed" };
const BY_STATUS = {
  completed: "done", failed: "failed", timeout: "late", cancelled: "stopped", in_progress: "working", review: "review",
  pending: "queued", running: "working", waiting: "waits", waits: "waits",
};

/** The name of the kind for a status and an outcome of the office's records; `waits`: a person is asked. */
export function markOf({ status = "", outcome = "", waits = false } = {}) {
  if (waits) return "waits";
  if (status === "cancelled" || status === "timeout") return BY_STATUS[status];
  return BY_OUTCOME[outcome] || BY_STATUS[status] || "queued";
}

/** The class of the kind's colour: done, findings, unchecked, failed, waits, working or none. */
export function markClass(kind) {
  return (KINDS[kind] || KINDS.queued)[2];
}

/** The badge; `children` after the word, such as a time; `bare`: the mark alone, its word for a screen reader. */
export function Outcome({ status, outcome, waits = false, bare = false, children = null }) {
  const [mark, word, tone] = KINDS[markOf({ status, outcome, waits })];
  return html`<span class=${`outcome ${tone}${bare ? " bare" : ""}`} title=${bare ? word : undefined}
    ><${Mark} name=${mark} />${bare ? html`<span class="visually-hidden">${word}</span>` : word}${children}</span>`;
}

// What a task or a goal came to, or is doing: a symbol, a word and a colour. Never a colour alone.

import { html } from "./html.js";

const MARKS = {
  done: ["✓", "Done"],
  findings: ["▲", "Done, with findings"],
  unchecked: ["▲", "Not checked"],
  failed: ["✕", "Failed"],
  stopped: ["✕", "Stopped"],
  late: ["✕", "Out of time"],
  waits: ["⏸", "Waits for you"],
  working: ["◐", "At work"],
  review: ["◐", "In review"],
  queued: ["○", "Not begun"],
};
const BY_OUTCOME = { done: "done", done_with_findings: "findings", not_checked: "unchecked", failed: "failed" };
const BY_STATUS = {
  completed: "done", failed: "failed", timeout: "late", cancelled: "stopped", in_progress: "working", review: "review",
  pending: "queued", running: "working", waiting: "waits", waits: "waits",
};
const CLASSES = { stopped: "", late: "failed", review: "working", queued: "" };

/** The name of the mark for a status and an outcome of the office's records; `waits`: a person is asked. */
export function markOf({ status = "", outcome = "", waits = false } = {}) {
  if (waits) return "waits";
  if (status === "cancelled" || status === "timeout") return BY_STATUS[status];
  return BY_OUTCOME[outcome] || BY_STATUS[status] || "queued";
}

export function markWord(mark) {
  return (MARKS[mark] || MARKS.queued)[1];
}

export function markClass(mark) {
  return CLASSES[mark] ?? mark;
}

/** The badge; `children` after the word, such as a time; `bare`: the symbol alone, its word for a screen reader. */
export function Outcome({ status, outcome, waits = false, bare = false, children = null }) {
  const mark = markOf({ status, outcome, waits });
  const [symbol, word] = MARKS[mark];
  const classes = `outcome ${markClass(mark)}${bare ? " bare" : ""}`;
  return html`<span class=${classes} title=${bare ? word : undefined}
    ><span class="mark" aria-hidden="true">${symbol}</span>${bare ? html`<span class="visually-hidden">${word}</span>` : word}${children}</span>`;
}

// The marks of outcomes and states, drawn: not every machine has them in its fonts.

import { html } from "./html.js";

const SHAPES = {
  done: html`<path d="M1.5 6.5 4.7 9.7 10.5 2.5" />`,
  findings: html`<path class="full" d="M6 1.5 11 10.5H1z" />`,
  failed: html`<path d="M2.2 2.2 9.8 9.8M9.8 2.2 2.2 9.8" />`,
  waits: html`<path d="M3.8 2v8M8.2 2v8" />`,
  working: html`<circle cx="6" cy="6" r="4.3" class="track" /><path d="M6 1.7a4.3 4.3 0 0 1 4.3 4.3" />`,
  queued: html`<circle cx="6" cy="6" r="4" />`,
};

/** name: done, findings, failed, waits, working or queued. Its meaning stands beside it in words. */
export function Mark({ name }) {
  return html`<svg class=${`mark mark-${name}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">${SHAPES[name]}</svg>`;
}

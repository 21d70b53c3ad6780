// Short notes in the corner: what was done, what failed. A failure stays until it is closed.

import { html, signal } from "./html.js";

const notes = signal([]);
let number = 0;

/** Show `text` for some seconds; `kind` is "done", "info" or "failed". */
export function toast(text, kind = "done") {
  const id = ++number;
  notes.value = [...notes.value.slice(-3), { id, text, kind }];
  if (kind !== "failed") setTimeout(() => dismiss(id), 5000);
}

/** Show a request's error with its cure. */
export function toastError(error) {
  toast([error.cause || error.message, error.cure].filter(Boolean).join(" "), "failed");
}

/** Run a command; says what was done, or what failed. Resolves with its answer, or undefined if it failed. */
export async function attempt(run, done = "") {
  try {
    const answer = await run();
    if (done) toast(done);
    return answer ?? null;
  } catch (error) {
    toastError(error);
    return undefined;
  }
}

function dismiss(id) {
  notes.value = notes.value.filter((note) => note.id !== id);
}

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">${notes.value.map(
    (note) => html`<div class=${`toast ${note.kind}`} key=${note.id}><p>${note.text}</p>
      <button type="button" class="plain" aria-label="Close" onClick=${() => dismiss(note.id)}>✕</button></div>`,
  )}</div>`;
}

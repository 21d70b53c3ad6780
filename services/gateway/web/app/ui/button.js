// A button with the key that does the same.

import { html, useState } from "./html.js";

/** `onClick` may return a promise: until it ends the button cannot be pressed again. */
export function Button({ children, keys = "", kind = "", onClick, disabled = false, title = "", type = "button" }) {
  const [busy, setBusy] = useState(false);
  const click = async (event) => {
    const running = onClick?.(event);
    if (!running?.finally) return;
    setBusy(true);
    await running.finally(() => setBusy(false));
  };
  return html`<button type=${type} class=${kind} disabled=${disabled || busy} aria-busy=${busy ? "true" : undefined} title=${title || undefined}
    aria-keyshortcuts=${keys || undefined} onClick=${click}>${children}${keys && html`<kbd aria-hidden="true">${keys}</kbd>`}</button>`;
}

// What is selected, at the side (below, on a small screen). Esc closes it.

import { useKeys } from "../keyboard.js";
import { html } from "./html.js";

export function Inspector({ title, onClose, children, label = "Selected" }) {
  useKeys(onClose ? { Escape: { label: "close", run: onClose } } : {});
  return html`<aside class="inspector" aria-label=${label}><header><h2>${title}</h2>
    ${onClose && html`<button type="button" class="plain" aria-label="Close" onClick=${onClose}>✕</button>`}</header><div class="body">${children}</div></aside>`;
}

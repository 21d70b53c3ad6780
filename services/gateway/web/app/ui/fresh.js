// The line above a list that says how many new rows wait. What one reads moves only when one wants it to.

import { useKeys } from "../keyboard.js";
import { html } from "./html.js";

export function Fresh({ number, onShow, what = "new" }) {
  useKeys(number ? { ".": { label: "show what is new", run: onShow } } : {});
  return html`<div aria-live="polite">${number > 0 && html`<button type="button" class="fresh" onClick=${onShow}>${number} ${what} <kbd>.</kbd></button>`}</div>`;
}

// A bar of a share.

import { html } from "./html.js";

/** `value` as a share of `most`; `label` says both. */
export function Bar({ value, most, label, colour = "" }) {
  const share = most > 0 ? Math.min(100, (value / most) * 100) : 0;
  return html`<span class="bar" role="img" aria-label=${label} title=${label} style=${colour && { "--c": colour }}
    ><i style=${{ width: value > 0 ? `max(2px, ${share}%)` : "0" }}></i></span>`;
}

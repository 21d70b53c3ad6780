// Small pictures of numbers: a line of their course, a bar of a share.

import { html } from "./html.js";

/** The course of `values` (oldest first; null where there is none), described by `label`. */
export function Sparkline({ values, label, width = 120, height = 28, colour = "" }) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length < 2) return html`<span class="faint">no data</span>`;
  const low = Math.min(...known);
  const range = Math.max(...known) - low || 1;
  const x = (index) => 2 + (index / (values.length - 1)) * (width - 4);
  const y = (value) => height - 3 - ((value - low) / range) * (height - 6);
  let path = "";
  let end = null;
  let gap = true;
  values.forEach((value, index) => {
    if (value === null || value === undefined) gap = true;
    else {
      path += `${gap ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      end = [x(index), y(value)];
      gap = false;
    }
  });
  return html`<svg class="spark" width=${width} height=${height} role="img" aria-label=${label} style=${colour && { "--c": colour }}
    ><path d=${path} /><circle cx=${end[0]} cy=${end[1]} r="2.2" /></svg>`;
}

/** `value` as a share of `most`; `label` says both in words. */
export function Bar({ value, most, label, colour = "" }) {
  const share = most > 0 ? Math.min(100, (value / most) * 100) : 0;
  return html`<span class="bar" role="img" aria-label=${label} title=${label} style=${colour && { "--c": colour }}
    ><i style=${{ width: value > 0 ? `max(2px, ${share}%)` : "0" }}></i></span>`;
}

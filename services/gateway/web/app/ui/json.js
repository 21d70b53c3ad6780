// JSON as text: indented, its names coloured, cut at a length one can still read.

import { html } from "./html.js";

const MOST = 200_000;
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g;

export function Json({ value }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  const shown = text.slice(0, MOST);
  const cut = text.length > MOST ? `\n… ${text.length - MOST} more characters` : "";
  return html`<pre class="json" tabindex="0" aria-label="JSON">${typeof value === "string" ? shown : colour(shown)}${cut}</pre>`;
}

function colour(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(TOKEN)) {
    parts.push(text.slice(end, found.index));
    const [whole, string, colon] = found;
    const kind = colon ? "name" : string ? "string" : "other";
    parts.push(html`<span class=${kind}>${string || whole}</span>`, colon || "");
    end = found.index + whole.length;
  }
  return [...parts, text.slice(end)];
}

// A small part of Markdown as elements: headings, lists, code, tables, quotes, emphasis, links and escapes. There is no way
// from a text to HTML here: whatever is not of these stays text. Links open http and https alone.

import { html } from "./html.js";

const MOST = 200_000; // characters
const DEEPEST = 6; // lists in lists
const LIST = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*\s*$/;
const FENCE = /^\s{0,3}(`{3,}|~{3,})/;
const TABLE_RULE = /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$/;
// What is looked for has an end within some hundred characters, so that no text takes long.
const INLINE = /(?<!`)(`{1,4})(?!`)([^]{0,500}?[^`])\1(?!`)|\*\*(?=\S)([^]{0,500}?\S)\*\*|(?<![\w*])[*_](?=[^\s*_])([^*_\n]{0,500}[^\s*_])[*_](?![\w*])|\[([^\]\n]{1,400})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>"'`)\]}]{1,2000})|\\([!-/:-@[-`{-~])/g;

export function Markdown({ text }) {
  return html`<div class="prose">${blocks((text || "").slice(0, MOST).split("\n"))}</div>`;
}

function blocks(lines, depth = 0) {
  const parts = [];
  for (let at = 0; at < lines.length; ) {
    const [part, next] = block(lines, at, depth);
    if (part) parts.push(part);
    at = next;
  }
  return parts;
}

/** The block that begins at line `at`, and the line after it. */
function block(lines, at, depth) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  if (FENCE.test(line)) return fence(lines, at);
  const heading = line.match(HEADING);
  if (heading) return [html`<${`h${Math.min(5, heading[1].length + 2)}`}>${inline(heading[2])}<//>`, at + 1];
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) return [html`<hr />`, at + 1];
  if (line.startsWith(">") && depth < DEEPEST) return quote(lines, at, depth);
  if (LIST.test(line) && depth < DEEPEST) return list(lines, at, depth);
  if (line.includes("|") && TABLE_RULE.test(lines[at + 1] || "")) return table(lines, at);
  return paragraph(lines, at);
}

function fence(lines, at) {
  const mark = lines[at].match(FENCE)[1];
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(mark) && !lines[end].trim().slice(mark.length).trim())) end += 1;
  return [html`<pre><code>${lines.slice(at + 1, end).join("\n")}</code></pre>`, end + 1];
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && lines[end].startsWith(">")) end += 1;
  return [html`<blockquote>${blocks(lines.slice(at, end).map((line) => line.replace(/^> ?/, "").replace(/^>+/, "")), depth + 1)}</blockquote>`, end];
}

function list(lines, at, depth) {
  const first = lines[at].match(LIST);
  const ordered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const item = lines[end].match(LIST);
    if (item && item[1].length <= first[1].length && /\d/.test(item[2]) === ordered) items.push([item[3]]);
    else if (items.length && lines[end].trim() && (item || /^\s{2,}/.test(lines[end]))) items[items.length - 1].push(lines[end].replace(/^\s{1,4}/, ""));
    else break;
  }
  const tag = ordered ? "ol" : "ul";
  return [html`<${tag}>${items.map((item) => html`<li>${inline(item[0])}${item.length > 1 && blocks(item.slice(1), depth + 1)}</li>`)}<//>`, Math.max(end, at + 1)];
}

function table(lines, at) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => inline(cell.trim()));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const rows = lines.slice(at + 2, end).map(cells);
  return [html`<table tabindex="0"><thead><tr>${cells(lines[at]).map((cell) => html`<th>${cell}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table>`, end];
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !HEADING.test(lines[end]) && !FENCE.test(lines[end]) && !LIST.test(lines[end]) && !lines[end].startsWith(">")) end += 1;
  return [html`<p>${inline(lines.slice(at, end).join("\n"))}</p>`, end];
}

/** The text of one block: code, emphasis and links as elements, everything else as text. */
export function inline(text, depth = 0) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, , code, strong, emphasis, label, target, bare, escaped] = found;
    parts.push(text.slice(end, found.index));
    end = found.index + whole.length;
    if (code) parts.push(html`<code>${code.trim()}</code>`);
    else if (escaped) parts.push(escaped);
    else if (strong) parts.push(html`<b>${depth < 3 ? inline(strong, depth + 1) : strong}</b>`);
    else if (emphasis) parts.push(html`<em>${emphasis}</em>`);
    else parts.push(link(label || bare, target || bare, whole));
  }
  parts.push(text.slice(end));
  return parts;
}

function link(label, target, whole) {
  if (!/^https?:\/\/[^\s/]/i.test(target)) return whole;
  const stop = target === label ? target.match(/[.,;:!?]+$/)?.[0] || "" : "";
  const href = target.slice(0, target.length - stop.length);
  const shown = target === label ? href : label;
  return html`<a href=${href} rel="noopener noreferrer nofollow" target="_blank" title=${href}>${shown}</a>${stop}`;
}

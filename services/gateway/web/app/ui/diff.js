// A unified diff as a table for each file, with the numbers of lines.

import { html } from "./html.js";

const MOST = 4000;

/** The files of a unified diff: [{name, plus, minus, lines: [{kind, old, now, text}]}]. */
export function parseDiff(text) {
  const files = [];
  let file = null;
  let old = 0;
  let now = 0;
  let left = [0, 0];
  const open = (name) => files.push((file = { name, plus: 0, minus: 0, lines: [] }));
  for (const line of text.split("\n")) {
    const inside = left[0] > 0 || left[1] > 0;
    const hunk = !inside && line.match(/^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/);
    if (!inside && line.startsWith("diff --git ")) open(line.slice(11).replace(/^a\/.* b\//, ""));
    else if (!inside && line.startsWith("--- ")) {
      if (!file || file.lines.length) open(line.slice(4).replace(/^a\//, "").replace(/\t.*/, ""));
    } else if (!inside && line.startsWith("+++ ")) {
      if (file && line !== "+++ /dev/null") file.name = line.slice(4).replace(/^b\//, "").replace(/\t.*/, "");
    } else if (hunk && file) {
      old = Number(hunk[1]);
      now = Number(hunk[3]);
      left = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      file.lines.push({ kind: "hunk", text: line });
    } else if (inside && line.startsWith("+")) {
      file.plus += 1;
      left[1] -= 1;
      file.lines.push({ kind: "plus", now: now++, text: line.slice(1) });
    } else if (inside && line.startsWith("-")) {
      file.minus += 1;
      left[0] -= 1;
      file.lines.push({ kind: "minus", old: old++, text: line.slice(1) });
    } else if (inside && !line.startsWith("\\")) {
      left = [left[0] - 1, left[1] - 1];
      file.lines.push({ kind: "", old: old++, now: now++, text: line.slice(1) });
    }
  }
  return files;
}

export function Diff({ text }) {
  const files = parseDiff(text);
  if (!files.length) return html`<pre class="panel">${text}</pre>`;
  return files.map((file) => html`<${FileDiff} key=${file.name} file=${file} />`);
}

function FileDiff({ file }) {
  const lines = file.lines.slice(0, MOST);
  return html`<section class="diff" aria-label=${`Changes in ${file.name}`}>
    <h3>${file.name}<span class="ok">+${file.plus}</span><span class="bad">−${file.minus}</span></h3>
    <table><tbody>${lines.map((line, index) => html`<${Line} key=${index} line=${line} />`)}</tbody></table>
    ${file.lines.length > MOST && html`<p class="soft">${file.lines.length - MOST} more lines</p>`}</section>`;
}

const SIGNS = { plus: "+", minus: "−" };

function Line({ line }) {
  if (line.kind === "hunk") return html`<tr class="hunk"><td></td><td></td><td>${line.text}</td></tr>`;
  return html`<tr class=${line.kind}><td class="at">${line.old}</td><td class="at">${line.now}</td><td>${SIGNS[line.kind] || " "} ${line.text}</td></tr>`;
}

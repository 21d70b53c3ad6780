// Goal: not built yet.

import { Empty } from "../ui/empty.js";
import { html } from "../ui/html.js";

export default function Goal() {
  return html`<h1>Goal</h1><${Empty} title="There is nothing here yet">${"This page will show one goal The command line has it already: "}<code> its answer, its timeline and its messages.:mailroom show</code><//>`;
}

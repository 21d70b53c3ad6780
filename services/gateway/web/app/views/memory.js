// Memory: not built yet.

import { Empty } from "../ui/empty.js";
import { html } from "../ui/html.js";

export default function Memory() {
  return html`<h1>Memory</h1><${Empty} title="There is nothing here yet">${"This page will search what the office remembers. The command line has it already: "}<code>mailroom memory search</code><//>`;
}

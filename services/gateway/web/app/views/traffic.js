// Traffic: not built yet.

import { Empty } from "../ui/empty.js";
import { html } from "../ui/html.js";

export default function Traffic() {
  return html`<h1>Traffic</h1><${Empty} title="There is nothing here yet">${"This page will show every message of the office as it happens. The command line has it already: "}<code>mailroom tail</code><//>`;
}

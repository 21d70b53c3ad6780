// Goals: not built yet.

import { Empty } from "../ui/empty.js";
import { html } from "../ui/html.js";

export default function Goals() {
  return html`<h1>Goals</h1><${Empty} title="There is nothing here yet">${"This page will show all goals. The command line has it already: "}<code>mailroom status</code><//>`;
}

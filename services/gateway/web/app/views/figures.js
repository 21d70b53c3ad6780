// Figures: not built yet.

import { Empty } from "../ui/empty.js";
import { html } from "../ui/html.js";

export default function Figures() {
  return html`<h1>Figures</h1><${Empty} title="There is nothing here yet">${"This page will show figures with their targets. The command line has it already: "}<code>mailroom kpi</code><//>`;
}

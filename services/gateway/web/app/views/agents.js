// Agents: not built yet.

import { Empty } from "../ui/empty.js";
import { html } from "../ui/html.js";

export default function Agents() {
  return html`<h1>Agents</h1><${Empty} title="There is nothing here yet">${"This page will show what each agent is doing. The command line has it already: "}<code>mailroom agents</code><//>`;
}

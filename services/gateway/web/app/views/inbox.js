// Inbox: not built yet.

import { Empty } from "../ui/empty.js";
import { html } from "../ui/html.js";

export default function Inbox() {
  return html`<h1>Inbox</h1><${Empty} title="There is nothing here yet">${"This page will show what waits for you. The command line has it already: "}<code>mailroom approvals</code><//>`;
}

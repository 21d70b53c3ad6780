// Chat: not built yet.

import { Empty } from "../ui/empty.js";
import { html } from "../ui/html.js";

export default function Chat() {
  return html`<h1>Chat</h1><${Empty} title="There is nothing here yet">${"This page will be for talking to the desk. The command line has it already: "}<code>mailroom ask</code><//>`;
}

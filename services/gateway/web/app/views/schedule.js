// Schedule: not built yet.

import { Empty } from "../ui/empty.js";
import { html } from "../ui/html.js";

export default function Schedule() {
  return html`<h1>Schedule</h1><${Empty} title="There is nothing here yet">${"This page will show reminders and what runs at night. The command line has it already: "}<code>mailroom reminders</code><//>`;
}

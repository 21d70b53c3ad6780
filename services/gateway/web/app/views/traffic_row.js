// One message in the list: when, who to whom, what, and a line of it; two lines on a small screen.

import { AgentChip } from "../ui/agent.js";
import { html, useEffect, useState } from "../ui/html.js";
import { Clock } from "../ui/time.js";

const NARROW = "(max-width: 720px)";

/** Whether the screen is small; follows its size. */
export function useNarrow() {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const watched = matchMedia(NARROW);
    const look = () => setNarrow(watched.matches);
    watched.addEventListener("change", look);
    return () => watched.removeEventListener("change", look);
  }, []);
  return narrow;
}

export function TrafficRow({ row, narrow }) {
  const parties = html`<span class="parties"><${AgentChip} name=${row.sender} person=${row.person} />${row.recipient && row.recipient !== row.sender && html`<span class="to" aria-label="to">→</span
    ><${AgentChip} name=${row.recipient} />`}</span>`;
  const time = html`<span class="at mono"><${Clock} at=${row.time} /></span>`;
  const what = html`<span class="what mono">${kindOf(row)}</span>`;
  const text = row.text?.replace(/^in_progress(: |$)/, "") || html`<span class="faint">${row.subject}</span>`;
  if (narrow) return html`<span class="two"><span class="first">${parties}${what}${time}</span><span class="text soft">${text}</span></span>`;
  return html`${time}${parties}${what}<span class="text">${text}</span><span class="seq mono faint" title=${row.stream}>${row.stream === "MEMORY" ? "m " : ""}${row.seq}</span>`;
}

/** What a message is, in the words of its subject: its type without the version. */
function kindOf({ type, subject, status }) {
  const step = subject.startsWith("task.") ? subject.slice(subject.lastIndexOf(".") + 1).replace(/^new_?.*/, "new") : "";
  return step ? `task ${step}` : (type || subject.split(".")[0]).replace(/\.v\d+$/, "").replace(/_/g, " ") + (status && type === "state_changed.v1" ? ` ${status}` : "");
}

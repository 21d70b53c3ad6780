// One goal: the answer first, then the proof: timeline, messages, report, diff, evidence. What is selected is at the side.

import { at, get } from "../api.js";
import { useKeys } from "../keyboard.js";
import { setQuery } from "../router.js";
import { Loading, Problem } from "../ui/empty.js";
import { html, useEffect, useMemo } from "../ui/html.js";
import { useLiveResource } from "../ui/resource.js";
import { Tabs } from "../ui/tabs.js";
import { Actions, goalKeys } from "./goal/actions.js";
import { Answer } from "./goal/answer.js";
import { DiffTab, EvidenceTab, ReportTab } from "./goal/files.js";
import { Head } from "./goal/head.js";
import { MessageList } from "./goal/messages.js";
import { Sequence } from "./goal/sequence.js";
import { Side } from "./goal/side.js";
import { Waterfall } from "./goal/waterfall.js";

const PAUSE = 800; // ms between two readings of a goal at work

export default function GoalView({ params, query }) {
  const id = params.id;
  const page = useLiveResource((signal) => get(at`/goals/${id}`, {}, { signal }), [id], (event) => event.message.goal_id === id, PAUSE);
  useOldLink();
  if (!page.data && page.error) return html`<h1>Goal</h1><${Problem} error=${page.error} retry=${page.reload} />`;
  if (!page.data) return html`<h1 class="visually-hidden">Goal</h1><${Loading} what="the goal" />`;
  return html`<${Shown} goal=${page.data} query=${query} reload=${page.reload} error=${page.error} />`;
}

function Shown({ goal, query, reload, error }) {
  const tab = query.tab || "timeline";
  const select = useMemo(() => (what) => setQuery({ row: "", message: "", evidence: "", ...what }), []);
  useKeys(goalKeys(goal, reload));
  const tabs = [
    { name: "timeline", label: "Timeline" },
    { name: "messages", label: "Messages", count: goal.messages_total },
    goal.has_report && { name: "report", label: "Report" },
    goal.patches.length > 0 && { name: "diff", label: "Diff" },
    (goal.findings.length > 0 || goal.evidence.length > 0) && { name: "evidence", label: "Evidence" },
  ].filter(Boolean);
  const chosen = tabs.some((each) => each.name === tab) ? tab : "timeline";
  const open = Boolean(query.row || query.message || query.evidence);
  return html`<div class="head"><${Head} goal=${goal} /><${Actions} goal=${goal} reload=${reload} /></div>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${goal.archived.map((part) => html`<p class="soft" key=${part.bundle}>${archived(part)}</p>`)}
    <${Answer} goal=${goal} onOpen=${(ref) => select({ evidence: ref })} reload=${reload} />
    <${Tabs} tabs=${tabs} selected=${chosen} label="Parts of the goal" end=${html`<${Export} id=${goal.goal_id} />`} />
    <div class=${`split${open ? "" : " closed"}`}><div role="tabpanel" aria-label=${chosen} class=${`part part-${chosen}`}>
      ${chosen === "timeline" && html`<${Waterfall} goal=${goal} selected=${query.row || ""} query=${query} onSelect=${(row) => select({ row })} />
        <${Sequence} goal=${goal} selected=${query.message || ""} onSelect=${(message) => select({ message })} />`}
      ${chosen === "messages" && html`<${MessageList} goal=${goal} selected=${query.message || ""} onSelect=${(message) => select({ message })} />`}
      ${chosen === "report" && html`<${ReportTab} goal=${goal} />`}
      ${chosen === "diff" && html`<${DiffTab} goal=${goal} />`}
      ${chosen === "evidence" && html`<${EvidenceTab} goal=${goal} onOpen=${(ref) => select({ evidence: ref })} />`}
    </div>${open && html`<${Side} goal=${goal} query=${query} select=${select} onClose=${() => select({})} />`}</div>`;
}

function archived({ bundle, folder, is_here }) {
  if (is_here) return html`Messages of this goal are read from the bundle <code>${bundle}</code> in ${folder}.`;
  return html`Not all is shown: messages of this goal lie in the bundle <code>${bundle}</code>, which is not in ${folder}. Put it there.`;
}

function Export({ id }) {
  return html`<a href=${`/api/v1/goals/${encodeURIComponent(id)}`} download=${`${id}.json`}>Export as JSON</a>`;
}

/** A link such as #task=ID leads to the row. */
function useOldLink() {
  useEffect(() => {
    const named = location.hash.match(/^#(?:task|row)=(.+)$/);
    if (!named) return;
    history.replaceState(history.state, "", location.pathname + location.search);
    setQuery({ row: decodeURIComponent(named[1]) });
  }, []);
}

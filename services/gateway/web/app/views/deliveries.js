// Deliveries: what people were told elsewhere, by which channel, what waits or failed, and what they replied.

import { at, get } from "../api.js";
import { setQuery } from "../router.js";
import { now } from "../store.js";
import { Empty, Loading, Problem } from "../ui/empty.js";
import { plural, relative } from "../ui/format.js";
import { html, useState } from "../ui/html.js";
import { Mark } from "../ui/mark.js";
import { useLiveResource } from "../ui/resource.js";
import { Ago, Clock } from "../ui/time.js";
import { attempt } from "../ui/toast.js";

const CONCERNED = /^record\.gateway\.(delivery|reply)\./;
const KINDS = {
  reminder: "reminder", approval: "approval", question: "question", goal_failed: "failed goal", goal_done: "finished goal",
  briefing: "briefing", dead_letter: "dead letter", answer: "answer to you",
};
const STATES = {
  delivered: ["done", "ok", "told"], waiting: ["queued", "wait", "waits"], sending: ["working", "wait", "on its way"],
  failed: ["failed", "bad", "given up"], dropped: ["queued", "soft", "not needed"],
};
const OUTCOMES = {
  approved: "approved", refused: "refused", done: "done", snoozed: "put off", replied: "sent to the agent",
  asked: "to the front desk", wrong_code: "wrong code", ignored: "nothing done",
};

export default function Deliveries({ query }) {
  const channel = query.channel || "";
  const page = useLiveResource((signal) => get("/deliveries", { channel }, { signal }), [channel], ({ message }) => CONCERNED.test(message.subject), 600);
  if (!page.data && page.error) return html`<h1>Deliveries</h1><${Problem} error=${page.error} retry=${page.reload} />`;
  if (!page.data) return html`<h1>Deliveries</h1><${Loading} what="what was told" />`;
  const { deliveries, channels, replies, problem } = page.data;
  return html`<div class="head"><div><h1>${headline(page.data)}</h1>${problem && html`<p class="bad">${problem}</p>`}</div></div>
    ${page.error && html`<${Problem} error=${page.error} retry=${page.reload} />`}
    ${!channels.length && !deliveries.length ? html`<${Nothing} />` : html`<div class="deliveries">
      <${Told} key=${channel} first=${page.data} channel=${channel} />
      <div><${Channels} channels=${channels} chosen=${channel} /><${Replies} replies=${replies} /></div></div>`}`;
}

function headline({ channels, deliveries, waiting, failed }) {
  if (waiting) return `${plural(waiting, "thing")} ${waiting > 1 ? "wait" : "waits"} to be told`;
  if (failed) return `${plural(failed, "thing")} could not be told`;
  if (deliveries.length) return `All told, the last ${relative(Date.parse(deliveries[0].first_at), now.value)}`;
  return channels.length ? "Nothing was sent yet" : "Nothing is sent to you";
}

function Nothing() {
  return html`<${Empty} title="No channel is set">Set one in <code>mailroom.toml</code>, such as mail, ntfy on your telephone or Telegram. Then <code>mailroom deliver test</code> tries it; reminders and requests come to you.<//>`;
}

function Told({ first, channel }) {
  const [more, setMore] = useState({ rows: [], next: null });
  const next = more.next === null ? first.next : more.next;
  const shown = new Map([...more.rows, ...first.deliveries].map((each) => [each.delivery_id, each]));
  const rows = [...shown.values()].sort((a, b) => (a.first_at < b.first_at ? 1 : -1));
  const load = async () => {
    const page = await attempt(() => get("/deliveries", { channel, before: next }));
    if (page) setMore((before) => ({ rows: [...before.rows, ...page.deliveries], next: page.next }));
  };
  if (!rows.length) return html`<p class="soft">Nothing was told ${channel ? `by ${channel} ` : ""}yet.</p>`;
  return html`<div><ul class="panel told" aria-label="Deliveries">${rows.map((each) => html`<${Row} key=${each.delivery_id} each=${each} />`)}</ul>
    ${next && html`<p><button type="button" onClick=${load}>Show earlier ones</button></p>`}</div>`;
}

function Row({ each }) {
  const [mark, tone, word] = STATES[each.status] || STATES.waiting;
  const later = each.status === "waiting" && Date.parse(each.due_at) > now.value;
  return html`<li><span class=${`state ${tone}`}><${Mark} name=${mark} /> ${word}</span>
    <span class="what"><span class="text">${each.goal_id ? html`<a href=${at`/goals/${each.goal_id}`}>${each.title}</a>` : each.title}</span>
      <span class="under"><span>${KINDS[each.kind] || each.kind}</span><span>by ${each.channel}</span>${each.urgency !== "normal" && html`<span>${each.urgency}</span>`}
        ${each.attempts > 1 && html`<span>${plural(each.attempts, "attempt")}</span>`}${each.bundle && html`<span>with others</span>`}
        ${later && html`<span>not before <${Clock} at=${each.due_at} seconds=${false} /></span>`}</span>
      ${each.reason && html`<span class="why">${each.reason}</span>`}</span>
    <${Ago} at=${each.ended_at || each.first_at} /></li>`;
}

function Channels({ channels, chosen }) {
  if (!channels.length) return html`<p class="soft">No channel is set any more.</p>`;
  return html`<section class="panel side" aria-label="Channels"><h2>Channels</h2><ul>${channels.map((each) => html`<li key=${each.name}>
    <button type="button" class="plain" aria-pressed=${String(chosen === each.name)} onClick=${() => setQuery({ channel: chosen === each.name ? "" : each.name })}>${each.name}</button>
    <span class="what"><span class="text">${each.where}</span><span class="under"><span>${plural(each.delivered, "delivery", "deliveries")}</span>
      ${each.waiting > 0 && html`<span class="wait">${each.waiting} waiting</span>`}${each.failed > 0 && html`<span class="bad">${each.failed} given up</span>`}
      ${each.quiet_hours && html`<span>quiet ${each.quiet_hours}</span>`}</span></span></li>`)}</ul></section>`;
}

function Replies({ replies }) {
  if (!replies.length) return null;
  return html`<section class="panel side" aria-label="Replies"><h2>What people replied</h2><ul>${replies.map((each) => html`<li key=${each.reply_id} class="reply">
    <span class="what"><span class="text">“${each.text}”</span><span class="under"><span class=${each.outcome === "wrong_code" ? "bad" : ""}>${OUTCOMES[each.outcome] || each.outcome}</span>
      <span>${each.address}, by ${each.channel}</span><${Ago} at=${each.at} /></span>${each.reason && html`<span class="why">${each.reason}</span>`}</span></li>`)}</ul></section>`;
}

// Goals: a board by state, or a list by time; live, with filters, and a form for a new one.

import { navigate, setQuery } from "../router.js";
import { useKeys } from "../keyboard.js";
import { may, remember, remembered } from "../store.js";
import { Button } from "../ui/button.js";
import { Empty, Loading, Problem } from "../ui/empty.js";
import { count, plural } from "../ui/format.js";
import { Fresh } from "../ui/fresh.js";
import { html, useEffect, useState } from "../ui/html.js";
import { Columns } from "./board_columns.js";
import { FILTERS, Filters, Modes } from "./board_filters.js";
import { List } from "./board_list.js";
import { useGoalKeys } from "./board_actions.js";
import { NewGoal } from "./board_new.js";
import { useGoals } from "./board_goals.js";

export default function Board({ query }) {
  const mode = query.view || remembered("board") || "board";
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query[name] || ""]));
  const goals = useGoals(mode, filters);
  const [selected, setSelected] = useState("");
  const filtered = Object.values(filters).some(Boolean);
  useEffect(() => remember("board", mode), [mode]);
  const show = (next) => setQuery({ view: next });
  useKeys({ b: { label: "board or list", run: () => show(mode === "board" ? "list" : "board") } });
  useGoalKeys(goals.shown.find((goal) => goal.goal_id === selected), goals.reload);
  const created = (id) => {
    setSelected(id);
    goals.expect(id);
  };
  const shared = { goals: goals.shown, selected, onSelect: setSelected, onOpen: (goal) => navigate(`/goals/${goal.goal_id}`) };
  return html`<div class="head"><div><h1>${goals.page ? headline(goals) : "Goals"}</h1></div>
      <div class="actions"><${Modes} mode=${mode} onMode=${show} /><${Button} kind="primary" keys="n" disabled=${!may("submit")} onClick=${() => setQuery({ new: 1 })}>New goal<//></div></div>
    <${Filters} filters=${filters} figure=${goals.page?.figure} />
    ${goals.error && html`<${Problem} error=${goals.error} retry=${goals.reload} />`}
    <${Fresh} number=${goals.fresh.length} what=${goals.fresh.length === 1 ? "new goal" : "new goals"} onShow=${goals.showFresh} />
    ${!goals.page && !goals.error && html`<${Loading} what="goals" />`}
    ${goals.page && !goals.shown.length && html`<${Nothing} filtered=${filtered} />`}
    ${goals.shown.length > 0 && (mode === "board" ? html`<${Columns} ...${shared} />` : html`<${List} ...${shared} added=${goals.added} onEnd=${goals.more} />`)}
    ${query.new && may("submit") && html`<${NewGoal} onClose=${() => setQuery({ new: "" })} onCreated=${created} />`}`;
}

/** "3 at work, 1 waits for you, 12 ended today". */
function headline({ shown, page }) {
  const open = shown.filter((goal) => goal.state !== "ended");
  const waits = open.filter((goal) => goal.state === "waiting").length;
  const midnight = new Date().setHours(0, 0, 0, 0);
  const today = shown.filter((goal) => goal.state === "ended" && Date.parse(goal.ended_at) >= midnight).length;
  const all = Object.values(page.counts).reduce((sum, number) => sum + number, 0);
  if (!all) return "No goals yet";
  const parts = [open.length > waits && `${count(open.length - waits)} at work`, waits && `${waits} ${waits === 1 ? "waits" : "wait"} for you`, today ? `${today} ended today` : `${plural(all, "goal")} in all`];
  return parts.filter(Boolean).join(", ");
}

function Nothing({ filtered }) {
  if (filtered) return html`<${Empty} title="No goal is like this" action=${html`<a href="/goals">Show all</a>`}>Take a filter away, or look for other words.<//>`;
  return html`<${Empty} title="Say what you want done" action=${html`<a href="/goals?new=1">Submit a goal <kbd>n</kbd></a>`}
    >In your own words, such as: <em>Check up on the repository at /srv/mine</em>. The conductor divides it into tasks for the agents, and you see them here.<//>`;
}

// Figures of a period: each with its target, its course, what is counted, and a way to its goals; the experience with agents;
// the checks.

import { get } from "../api.js";
import { useKeys } from "../keyboard.js";
import { Loading, Problem } from "../ui/empty.js";
import { plural } from "../ui/format.js";
import { html } from "../ui/html.js";
import { PeriodChoice, periodText, usePeriod } from "../ui/period.js";
import { useLiveResource, useResource } from "../ui/resource.js";
import { Figure } from "./figures_figure.js";
import { Checks, Experience } from "./figures_tables.js";

const SLOW = 10000; // ms: figures of a period need not follow every message

export default function Figures({ query }) {
  const period = usePeriod(query);
  const kpi = useLiveResource((signal) => get("/kpi", period, { signal }), [period], ({ message }) => /^(task\..*\.(ended|cancelled)|event\.|mail\.)/.test(message.subject), SLOW);
  const doctor = useResource((signal) => get("/doctor", {}, { signal }), []);
  const again = () => Promise.all([kpi.reload(), doctor.reload()]);
  useKeys({ u: { label: "compute again", run: again } });
  if (!kpi.data && kpi.error) return html`<h1>Figures</h1><${Problem} error=${kpi.error} retry=${kpi.reload} />`;
  if (!kpi.data) return html`<h1>Figures</h1><${Loading} what="figures" />`;
  const { figures, metrics, since, until } = kpi.data;
  const list = (some) => some.map((figure) => html`<${Figure} key=${figure.name} figure=${figure} since=${since} until=${period.until || until} />`);
  const targets = figures.filter((figure) => figure.target !== null);
  const others = figures.filter((figure) => figure.target === null);
  return html`<div class="head"><div><h1 aria-live="polite">${headline(targets)}</h1>
      <div class="meta"><span>${periodText(since, until)}</span>${missing(targets)}</div></div><${PeriodChoice} query=${query} /></div>
    ${kpi.error && html`<${Problem} error=${kpi.error} retry=${kpi.reload} />`}
    <section class="figures four" aria-label="Figures with a target">${list(targets)}</section>
    <h2>Work and spending <small>without a target</small></h2>
    <section class="figures" aria-label="Other figures">${list(others)}</section>
    <${Experience} agents=${metrics.agents} />
    <${Checks} doctor=${doctor} />`;
}

function headline(targets) {
  const known = targets.filter((figure) => figure.met !== null);
  const missed = known.filter((figure) => !figure.met);
  if (!known.length) return "Nothing to measure yet";
  if (!missed.length) return known.length === targets.length ? "All targets are met" : `All ${known.length} targets with data are met`;
  if (missed.length === 1 && known.length === targets.length) return "All targets but one";
  const data = known.length < targets.length ? " with data" : "";
  return `${missed.length} of ${plural(known.length, "target")}${data} ${missed.length === 1 ? "is" : "are"} missed`;
}

function missing(targets) {
  const empty = targets.filter((figure) => figure.met === null);
  return empty.length > 0 && html`<span>no data: <b>${empty.map((figure) => figure.name).join(", ")}</b></span>`;
}

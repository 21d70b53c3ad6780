// The briefing of the day: a head of at most five lines, what was added, the sections; every line leads to its source.

import { at, get, post } from "../api.js";
import { route } from "../router.js";
import { may } from "../store.js";
import { Empty, Loading, Problem } from "../ui/empty.js";
import { html, useEffect, useState } from "../ui/html.js";
import { useLiveResource } from "../ui/resource.js";
import { Ago, Clock } from "../ui/time.js";
import { attempt, toast } from "../ui/toast.js";

const CONCERNED = /^record\.nexus\.briefing\./;
const PATIENCE = 240000;

export default function Morning() {
  const { day, kind } = route.value.params;
  const load = (signal) => (day ? get(at`/briefings/${day}/${kind}`, {}, { signal }).then((each) => ({ briefings: [each] })) : get("/briefings/today", {}, { signal }));
  const today = useLiveResource(load, [day, kind], ({ message }) => CONCERNED.test(message.subject));
  const made = useLiveResource((signal) => get("/briefings", {}, { signal }), [], ({ message }) => CONCERNED.test(message.subject));
  const [chosen, choose] = useState("");
  if (!today.data && today.error) return html`<h1>Today</h1><${Problem} error=${today.error} retry=${today.reload} />`;
  if (!today.data) return html`<h1>Today</h1><${Loading} what="the briefing" />`;
  const { briefings } = today.data;
  const shown = briefings.find((each) => each.kind === chosen) || briefings[0];
  const past = (made.data?.briefings || []).filter((each) => !shown || each.day !== shown.day).slice(0, 14);
  return html`<div class="head"><div><h1>${shown ? shown.title : "No briefing yet today"}</h1>
      <div class="meta">${shown && html`<span>made at <${Clock} at=${shown.made_at} seconds=${false} />, <${Ago} at=${shown.made_at} /></span>`}
        ${briefings.length > 1 && briefings.map((each) => html`<button type="button" key=${each.kind} class="plain" aria-pressed=${String(each === shown)} onClick=${() => choose(each.kind)}>${each.kind}</button>`)}</div></div>
      ${!day && may("submit") && html`<${Look} kind=${shown?.kind} made=${shown} />`}</div>
    ${today.error && html`<${Problem} error=${today.error} retry=${today.reload} />`}
    ${shown ? html`<${Briefing} briefing=${shown} />` : html`<${Empty} title="Nothing to read yet">The front desk writes a briefing every morning and every evening. To have one now, use the buttons above.<//>`}
    ${past.length > 0 && html`<nav class="past" aria-label="Earlier briefings"><h2>Earlier</h2>${past.map((each) => html`<a key=${each.day + each.kind} href=${at`/today/${each.day}/${each.kind}`}>${each.day} ${each.kind}</a>`)}</nav>`}`;
}

/** Have it made now, or looked at again. */
function Look({ kind, made }) {
  const [wanted, setWanted] = useState(0);
  const told = made ? `${made.made_at}${made.additions.length}${made.kind}` : "";
  useEffect(() => setWanted(0), [told]);
  useEffect(() => {
    if (!wanted) return undefined;
    const end = setTimeout(() => setWanted(0), PATIENCE);
    return () => clearTimeout(end);
  }, [wanted]);
  const look = (which) => async () => {
    setWanted(Date.now());
    if (!(await attempt(() => post("/briefings", { kind: which })))) return setWanted(0);
    return toast("It is looked at; what is new appears here.");
  };
  const kinds = kind ? [kind] : ["morning", "evening"];
  return html`<div class="looks">${kinds.map((each) => html`<button type="button" key=${each} disabled=${wanted > 0} onClick=${look(each)}>${wanted ? "Looking …" : kind ? "Look again" : `Make the ${each} briefing`}</button>`)}</div>`;
}

function Briefing({ briefing }) {
  const added = [...briefing.additions].reverse();
  const shown = briefing.sections.filter((section) => section.lines.length || section.problem);
  return html`<div class="today"><ol class="told panel" aria-label="In short">${briefing.head.map((line, index) => html`<li key=${index}><${Told} line=${line} /></li>`)}</ol>
    ${added.map((each) => html`<section class="panel added" key=${each.made_at} aria-label="Added"><h2>Added at <${Clock} at=${each.made_at} seconds=${false} /></h2>
      <ul>${each.sections.map((section) => section.lines.map((line, index) => html`<li key=${section.key + index}><span class="soft">${section.title}: </span><${Told} line=${line} /></li>`))}</ul></section>`)}
    ${shown.map((section) => html`<section key=${section.key} aria-label=${section.title}><h2>${section.title} ${section.lines.length > 0 && html`<small>${section.lines.length}</small>`}</h2>
      ${section.lines.length > 0 && html`<ul class="panel">${section.lines.map((line, index) => html`<li key=${index}><${Told} line=${line} /></li>`)}</ul>`}
      ${section.problem && html`<p class="soft">${section.problem}${section.missed ? " It is tried again." : ""}</p>`}</section>`)}</div>`;
}

/** A line; sources within its text become links where they stand, others follow it. */
function Told({ line }) {
  const sources = line.sources.filter((source) => source.kind !== "news");
  const news = line.sources.find((source) => source.kind === "news");
  const opened = news && may("submit") ? () => post(at`/news/${news.id}`, { verdict: "open" }).catch(() => {}) : null;
  if (!line.inline)
    return html`<span class="text">${line.text}</span> <span class="sources">${sources.map((source) => html`<${Source} key=${source.label} source=${source} opened=${opened} />`)}</span>
      ${news && may("submit") && html`<${Opinion} id=${news.id} title=${line.text} />`}`;
  const known = new Map(sources.map((source) => [`[${source.label}]`, source]));
  const parts = line.text.split(/(\[[^\]]*\])/);
  const [first, ...rest] = parts;
  const colon = first.indexOf(": ");
  return html`<span class="text">${colon > 0 && html`<b>${first.slice(0, colon + 1)}</b>`}${colon > 0 ? first.slice(colon + 1) : first}${rest.map((part, index) => (known.has(part) ? html`<${Source} key=${index} source=${known.get(part)} />` : part))}</span>`;
}

/** Keep or dismiss an item: what is told next follows it. */
function Opinion({ id, title }) {
  const [verdict, setVerdict] = useState("");
  const judge = (which) => async () => {
    if (await attempt(() => post(at`/news/${id}`, { verdict: which }))) setVerdict(which);
  };
  if (verdict) return html`<span class="opinion soft" role="status">${verdict === "keep" ? "Kept: more like it." : "Dismissed: less like it."}</span>`;
  return html`<span class="opinion"><button type="button" class="plain" onClick=${judge("keep")}>Keep<span class="visually-hidden">: ${title}</span></button>
    <button type="button" class="plain" onClick=${judge("dismiss")}>Not for me<span class="visually-hidden">: ${title}</span></button></span>`;
}

function Source({ source, opened = null }) {
  const outside = /^https?:\/\//.test(source.link);
  const label = outside ? source.label.replace(/^https?:\/\/(www\.)?/, "").slice(0, 48) : source.label;
  if (outside) return html`<a class="source" href=${source.link} target="_blank" rel="noreferrer noopener" onClick=${opened}>${label}</a>`;
  if (source.link.startsWith("/")) return html`<a class="source" href=${source.link} aria-label=${label} title=${label}>${label.split(" ")[0]}</a>`;
  return html`<span class="source" title=${source.open}>${label}</span>`;
}

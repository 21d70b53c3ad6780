// The frame around every view: places, the line above, what is said about the connection.

import { everywhereKeys } from "./commands.js";
import { useKeys } from "./keyboard.js";
import { connection, held, last, paused, problem, togglePause } from "./live.js";
import { KeyList, Palette, paletteOpen } from "./palette.js";
import { route } from "./router.js";
import { now, office, person, signedOut, waiting } from "./store.js";
import { Questions } from "./ui/dialog.js";
import { Empty, Loading, Problem } from "./ui/empty.js";
import { clock, count, plural, shortId } from "./ui/format.js";
import { Icon } from "./ui/icon.js";
import { html, useEffect, useRef, useState } from "./ui/html.js";
import { Toasts } from "./ui/toast.js";
import { VIEWS, loadView, useOnlyStyles } from "./views/index.js";

const MENU = VIEWS.filter((view) => view.key);

export function Shell() {
  useKeys(everywhereKeys());
  useTitle();
  return html`<a class="skip" href="#view">To the content</a>
    <div class="app"><${Places} /><div class="page"><${Top} /><${Notice} /><${View} /></div></div>
    <${Palette} /><${KeyList} /><${Questions} /><${Toasts} />`;
}

function Places() {
  const current = route.value.view?.within || route.value.view?.name;
  return html`<nav class="places" aria-label="Places"><a class="brand" href="/" tabindex="-1" aria-hidden="true"
      ><svg viewBox="0 0 20 15"><rect x="1" y="1" width="18" height="13" rx="3" /><path d="M1.5 2.5 10 9l8.5-6.5" fill="none" /></svg>Mailroom</a>
    ${MENU.map((view) => html`<${Place} key=${view.name} view=${view} current=${current === view.name} />`)}
    <button type="button" class="place more" style=${{ "--narrow": 8 }} onClick=${() => (paletteOpen.value = true)}><span class="named"><${Icon} name="more" />More</span></button>
    <${Office} /></nav>`;
}

function Place({ view, current }) {
  const number = view.name === "inbox" ? waiting.value : 0;
  return html`<a class=${`place${view.narrow ? "" : " aside"}`} style=${{ "--narrow": view.narrow || 7 }} href=${view.paths[0]}
    aria-current=${current ? "page" : undefined}><span class="named"><${Icon} name=${view.name} />${view.title}</span>${number > 0 && html`<b class="count"
      >${number > 99 ? "99+" : number}<span class="visually-hidden"> wait for you</span></b>`}</a>`;
}

/** The foot of the menu: whether the page is live, and how much the log holds. */
function Office() {
  const { agents, paused: resting, memory } = office.value;
  const [word, kind] = stateOf();
  return html`<div class="office"><button type="button" onClick=${togglePause} title="Pause or resume: p" aria-pressed=${String(paused.value)}
      ><span class=${`dot ${kind}`}></span>${word}${agents !== undefined && ` · ${plural(agents, "agent")}`}</button>
    ${resting > 0 && html`<div class="wait">${plural(resting, "agent")} paused</div>`}
    ${last.value > 0 && html`<div>${plural(last.value, "message")}</div>`}
    ${memory !== undefined && html`<div>memory version ${count(memory)}</div>`}
    ${person.value && html`<div>signed in as ${person.value.person}</div>`}</div>`;
}

function stateOf() {
  if (connection.value.state === "lost") return ["Lost", "lost"];
  if (paused.value) return ["Paused", "paused"];
  if (connection.value.state === "catching") return ["Catching up", "catching"];
  return connection.value.state === "live" ? ["Live", "live"] : ["Connecting", ""];
}

function Top() {
  const { view, params } = route.value;
  const parent = view?.within && VIEWS.find((each) => each.name === view.within);
  const id = Object.values(params)[0];
  return html`<header class="top"><div class="where">${parent && html`<a href=${parent.paths[0]}>${parent.title}</a><span>/</span>`}
      ${view && !parent && (id ? html`<a href=${view.paths[0]}>${view.title}</a><span>/</span>` : html`<span aria-current="page">${view.title}</span>`)}
      ${id && html`<span class="mono" aria-current="page" title=${id}>${shortId(id)}</span>`}</div>
    <button type="button" class="find" onClick=${() => (paletteOpen.value = true)} aria-keyshortcuts="Control+K"><${Icon} name="find" /><span class="long">Search or run a command</span><span class="short">Search</span><kbd aria-hidden="true">Ctrl K</kbd></button></header>`;
}

/** What is said if the page is not live: since when, and what one can do. */
function Notice() {
  const { state, since } = connection.value;
  if (signedOut.value) return html`<${SignedOut} />`;
  const long = now.value - since > 1500;
  let line = null;
  if (state === "lost" && long) line = ["lost", `Connection lost since ${clock(since)}. What you see is as of then; it catches up by itself.`];
  else if (state === "catching") line = ["", `Connection was lost at ${clock(since)}: catching up.`];
  else if (problem.value) line = ["lost", `New messages cannot be shown: ${problem.value}. Free space on the office's disk; it goes on by itself.`];
  else if (paused.value) line = ["paused", `Paused. ${plural(held.value, "new message")}.`];
  return html`<div role="status" aria-live="polite" style=${{ display: "contents" }}>${line && html`<div class=${`notice ${line[0]}`}><span>${line[1]}</span>
    ${paused.value && html`<button type="button" onClick=${togglePause}>Resume <kbd>p</kbd></button>`}</div>`}</div>`;
}

function SignedOut() {
  const next = encodeURIComponent(location.pathname + location.search);
  return html`<div class="notice lost" role="alert"><span>You are not signed in. Run <code>mailroom web</code> on the office's machine and open its link, or <a href=${`/login?next=${next}`}>sign in</a>.</span></div>`;
}

function View() {
  const { view, params, query, path } = route.value;
  const [loaded, setLoaded] = useState({ name: "", component: null, error: null });
  const main = useRef(null);
  useEffect(() => {
    if (!view) return undefined;
    let wanted = true;
    loadView(view).then(
      (component) => wanted && setLoaded({ name: view.name, component, error: null }),
      (error) => wanted && setLoaded({ name: view.name, component: null, error }),
    );
    return () => (wanted = false);
  }, [view]);
  useFocusOnChange(main, path);
  useOnlyStyles(loaded.name);
  const ready = view && loaded.name === view.name;
  return html`<main class=${`view ${view ? `view-${view.name}` : ""}${view?.wide ? " wide" : ""}`} id="view" tabindex="-1" ref=${main} aria-busy=${view && !ready ? "true" : undefined}>${
    !view ? html`<${Unknown} />` : !ready ? html`<${Loading} />` : loaded.error ? html`<${Problem} error=${loaded.error} retry=${() => location.reload()} />`
      : html`<${loaded.component} key=${view.name + Object.values(params).join("/")} params=${params} query=${query} />`
  }</main>`;
}

function Unknown() {
  return html`<h1>There is no such page</h1><${Empty} title="The address leads nowhere" action=${html`<a href="/">To the inbox</a>`}>Press <kbd>Ctrl K</kbd> to look for a goal or a page.<//>`;
}

/** After a change of the page, reading and keys begin at its content. */
function useFocusOnChange(main, path) {
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [path]);
}

function useTitle() {
  const { view, params } = route.value;
  const number = waiting.value;
  useEffect(() => {
    const id = Object.values(params)[0];
    const place = [view?.title || "Not found", id].filter(Boolean).join(" ");
    document.title = `${number ? `(${number}) ` : ""}${place} · Mailroom`;
  }, [view, params, number]);
}

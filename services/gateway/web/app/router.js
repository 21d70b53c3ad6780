// Real paths without loading the page again: reload, back and shared links work.

import { signal } from "@preact/signals";
import { VIEWS } from "./views/index.js";

/** Where the page is: {view, params, query, path}; `view` is an entry of VIEWS, or null if there is none. */
export const route = signal(parse(location.href));

function parse(href) {
  const url = new URL(href, location.origin);
  const path = url.pathname.replace(/\/+$/, "") || "/";
  const query = Object.fromEntries(url.searchParams);
  for (const view of VIEWS) {
    for (const pattern of view.paths) {
      const params = match(pattern, path);
      if (params) return { view, params, query, path };
    }
  }
  return { view: null, params: {}, query, path };
}

function match(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params = {};
  for (const [index, part] of wanted.entries()) {
    if (part.startsWith(":")) params[part.slice(1)] = decode(given[index]);
    else if (part !== given[index]) return null;
  }
  return params;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Go to a path of this page. With `replace` the last entry of the history is replaced. */
export function navigate(href, { replace = false } = {}) {
  const next = parse(href);
  history.replaceState({ ...history.state, scroll: scrollY }, "");
  history[replace ? "replaceState" : "pushState"]({ scroll: 0 }, "", href);
  const same = next.view === route.value.view && next.path === route.value.path;
  route.value = next;
  if (!same) scrollTo(0, 0);
}

/** Change the query of this page without an entry in the history; empty values leave it. */
export function setQuery(changes) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === null || value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  history.replaceState(history.state, "", url);
  route.value = parse(url.href);
}

function follow(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.hash && link.pathname + link.search === location.pathname + location.search) return;
  if (link.pathname.startsWith("/api/") || !parse(link.href).view) return;
  event.preventDefault();
  navigate(link.href);
}

/** Follow links and the browser's back and forward. */
export function startRouter() {
  history.scrollRestoration = "manual";
  document.addEventListener("click", follow);
  addEventListener("popstate", (event) => {
    route.value = parse(location.href);
    requestAnimationFrame(() => scrollTo(0, event.state?.scroll || 0));
  });
}

// Every view: its paths, its place in the menu, the key after "g". A module in views/ exports the component as default and
// gets `params` and `query`; its styles are in styles/<name>.css.

import { useLayoutEffect } from "../ui/html.js";

/**
 * name: module in views/ and sheet in styles/.
 * paths: the first is that of the menu.
 * key: "g" and this go there. narrow: its place in the bar of a small screen (others are under More).
 */
export const VIEWS = [
  { name: "inbox", title: "Inbox", paths: ["/"], key: "i", narrow: 1 },
  { name: "board", title: "Goals", paths: ["/goals"], key: "g", narrow: 3 },
  { name: "goal", title: "Goal", paths: ["/goals/:id"], within: "board" },
  { name: "compare", title: "Two goals", paths: ["/compare/:id", "/compare/:id/:other"], within: "board" },
  { name: "traffic", title: "Traffic", paths: ["/traffic"], key: "t" },
  { name: "agents", title: "Agents", paths: ["/agents", "/agents/:name"], key: "a" },
  { name: "models", title: "Models", paths: ["/models", "/models/:id"], within: "agents" },
  { name: "memory", title: "Memory", paths: ["/memory", "/memory/:id"], key: "m", narrow: 4 },
  { name: "chat", title: "Chat", paths: ["/chat", "/chat/:id"], key: "c", narrow: 2 },
  { name: "morning", title: "Today", paths: ["/today", "/today/:day/:kind"], key: "b" },
  { name: "timetable", title: "Timetable", paths: ["/timetable"], key: "s" },
  { name: "deliveries", title: "Deliveries", paths: ["/deliveries"], key: "d" },
  { name: "figures", title: "Figures", paths: ["/figures"], key: "f" },
];

const loaded = new Map();
const sheets = new Map();

/** The component of a view, loaded once, with its styles. */
export function loadView(view) {
  if (!loaded.has(view.name)) {
    const loading = Promise.all([import(`./${view.name}.js`), addStyles(view.name)]);
    loading.catch(() => loaded.delete(view.name));
    loaded.set(view.name, loading.then(([module]) => module.default));
  }
  return loaded.get(view.name);
}

function addStyles(name) {
  return new Promise((resolve) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = `/web/styles/${name}.css`;
    link.onload = link.onerror = resolve;
    sheets.set(name, link);
    document.head.append(link);
  });
}

/** Only the sheet of the view that is shown counts: views looked different after another one otherwise. */
export function useOnlyStyles(name) {
  useLayoutEffect(() => {
    for (const [each, link] of sheets) link.media = each === name ? "all" : "not all";
  }, [name]);
}

// Every view: its paths, its place in the menu, the key after "g". A module in views/ exports the component as default and
// gets `params` and `query`; its styles, if it has any, are in styles/<name>.css.

/**
 * name: module in views/ and, with `styles`, sheet in styles/.
 * paths: the first is that of the menu.
 * key: "g" and this go there. narrow: its place in the bar of a small screen (others are under More).
 */
export const VIEWS = [
  { name: "inbox", title: "Inbox", paths: ["/"], key: "i", narrow: 1, styles: true },
  { name: "board", title: "Goals", paths: ["/goals"], key: "g", narrow: 3, styles: true },
  { name: "goal", title: "Goal", paths: ["/goals/:id"], within: "board", styles: true },
  { name: "traffic", title: "Traffic", paths: ["/traffic"], key: "t", styles: true },
  { name: "agents", title: "Agents", paths: ["/agents", "/agents/:name"], key: "a", styles: true },
  { name: "memory", title: "Memory", paths: ["/memory", "/memory/:id"], key: "m", narrow: 4, styles: true },
  { name: "chat", title: "Chat", paths: ["/chat", "/chat/:id"], key: "c", narrow: 2, styles: true },
  { name: "morning", title: "Today", paths: ["/today", "/today/:day/:kind"], key: "b", styles: true },
  { name: "schedule", title: "Schedule", paths: ["/schedule"], key: "s", styles: true },
  { name: "deliveries", title: "Deliveries", paths: ["/deliveries"], key: "d", styles: true },
  { name: "figures", title: "Figures", paths: ["/figures"], key: "f", styles: true },
];

const loaded = new Map();

/** The component of a view, loaded once, with its styles. */
export function loadView(view) {
  if (!loaded.has(view.name)) {
    const loading = Promise.all([import(`./${view.name}.js`), view.styles ? addStyles(view.name) : null]);
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
    document.head.append(link);
  });
}

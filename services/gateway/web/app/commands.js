// What can be done from everywhere: places to go to, the theme, pause, notifications.

import { paused, togglePause } from "./live.js";
import { notifying, toggleNotifications } from "./notify.js";
import { keysOpen, paletteOpen } from "./palette.js";
import { navigate } from "./router.js";
import { theme } from "./store.js";
import { VIEWS } from "./views/index.js";

const THEMES = ["system", "light", "dark"];

/** Every command: {name, keys, run}. */
export function listCommands() {
  const places = VIEWS.filter((view) => view.key).map((view) => ({ name: `Go to ${view.title}`, keys: `g ${view.key}`, run: () => navigate(view.paths[0]) }));
  const others = THEMES.filter((each) => each !== theme.value).map((each) => ({ name: `Theme: ${each}`, keys: "", run: () => (theme.value = each) }));
  return [
    ...places,
    { name: "Submit a goal", keys: "n", run: () => navigate("/goals?new=1") },
    { name: paused.value ? "Resume live updates" : "Pause live updates", keys: "p", run: togglePause },
    { name: notifying.value ? "Turn notifications of this browser off" : "Notify me in this browser when something waits for me", keys: "", run: toggleNotifications },
    ...others,
    { name: "List of keys", keys: "?", run: () => (keysOpen.value = true) },
    { name: "Documents of the HTTP API", keys: "", run: () => location.assign("/openapi.json") },
  ];
}

/** The keys that work everywhere. */
export function everywhereKeys() {
  const keys = {};
  for (const command of listCommands()) if (command.keys) keys[command.keys] = { label: command.name, run: command.run };
  keys["Ctrl+k"] = { label: "Search or run a command", run: () => (paletteOpen.value = !paletteOpen.value) };
  keys["/"] = { label: "filter, or search", run: focusFilter };
  return keys;
}

function focusFilter() {
  const filter = document.querySelector("main [data-filter]");
  if (!filter) return (paletteOpen.value = true);
  filter.focus();
  filter.select?.();
  return undefined;
}

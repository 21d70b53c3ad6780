// Notes of the browser when something new waits for a person, if that person wants them.

import { signal } from "@preact/signals";
import { remember, remembered } from "./store.js";
import { toast } from "./ui/toast.js";

export const notifying = signal(remembered("notify") === "yes" && globalThis.Notification?.permission === "granted");

export async function toggleNotifications() {
  if (notifying.value) return set(false);
  if (!globalThis.Notification) return toast("This browser has no notifications.", "failed");
  const answer = await Notification.requestPermission();
  if (answer !== "granted") return toast("The browser does not allow notifications of this page; its settings can.", "failed");
  set(true);
  return toast("You will be told when something waits for you and this page is not in front.");
}

function set(on) {
  notifying.value = on;
  remember("notify", on ? "yes" : null);
}

/** Tell of what waits ({id, title}), once in a browser for each id, if no page is being looked at. */
export function notify({ id, title, text = "" }) {
  if (!notifying.value || document.visibilityState === "visible") return;
  const note = new Notification(title, { body: text.slice(0, 200), tag: id, icon: "/web/icon.svg" });
  note.onclick = () => {
    window.focus();
    note.close();
  };
}

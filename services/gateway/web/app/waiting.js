// How many things wait for a person, for the menu, the title and the browser's notes.

import { get } from "./api.js";
import { notify } from "./notify.js";
import { waiting } from "./store.js";

const PAUSE = 500; // ms for which events are collected before the inbox is read again
/** Subjects of messages after which the inbox may hold something else. */
const CONCERNED = /^(approval\.|dead\.|mail\.user\.|state\.goal\.)/;

const told = new Set();
let first = true;

/** Whether an event may change what waits. */
export function concernsInbox({ message }) {
  return CONCERNED.test(message.subject);
}

function noteOf(item) {
  return item.kind === "failed_goal" ? `Failed: ${item.title}` : item.title;
}

async function read() {
  const inbox = await get("/inbox").catch(() => null);
  if (!inbox) return;
  waiting.value = inbox.waiting.length;
  for (const item of inbox.waiting) {
    if (!told.has(item.id) && !first) notify({ id: item.id, title: noteOf(item), text: item.text });
    told.add(item.id);
  }
  first = false;
}

/** Read the inbox now, and again when something happens that concerns it. */
export function followInbox(onEvents) {
  let due = 0;
  read();
  onEvents((events) => {
    if (!events.some(concernsInbox)) return;
    due ||= setTimeout(() => {
      due = 0;
      read();
    }, PAUSE);
  });
}

// The page: everything starts here.

import { render } from "preact";
import { get } from "./api.js";
import { startKeyboard } from "./keyboard.js";
import { onEvents, startLive } from "./live.js";
import { followOffice } from "./office.js";
import { startRouter } from "./router.js";
import { Shell } from "./shell.js";
import { person, signedOut } from "./store.js";
import { html } from "./ui/html.js";
import { followInbox } from "./waiting.js";

async function readSession() {
  try {
    person.value = await get("/session");
  } catch {
    person.value = null; // api.js notes a missing session; anything else shows where it matters
  }
}

/** Show the page in `root` and keep it live. */
export async function start(root) {
  startRouter();
  startKeyboard();
  root.replaceChildren();
  render(html`<${Shell} />`, root);
  await readSession();
  if (signedOut.value) return;
  startLive(person.value?.position);
  followInbox(onEvents);
  followOffice();
}

// How many agents there are and the version of memory, for the foot of the menu.

import { get } from "./api.js";
import { office } from "./store.js";

const EVERY = 60000; // ms between two reads while the page is seen

async function read() {
  if (document.hidden) return;
  const agents = (await get("/agents").catch(() => null))?.agents;
  const running = agents?.filter((agent) => agent.processes.length > 0 && agent.name !== "gateway");
  const memory = running?.some((agent) => agent.name === "memory") ? await get("/memory/counts").catch(() => null) : null;
  office.value = { names: running?.map((agent) => agent.name), agents: running?.length, paused: agents?.filter((agent) => agent.state === "paused").length, memory: memory?.version };
}

/** Read it now, now and then, and when the page is seen again. */
export function followOffice() {
  read();
  setInterval(read, EVERY);
  document.addEventListener("visibilitychange", read);
}

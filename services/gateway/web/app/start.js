// Starts the page; if the libraries are not installed, says how to install them.

const LIBRARIES = "/web/vendor/preact.mjs";

async function explain(error) {
  const main = document.querySelector("main");
  const missing = !(await fetch(LIBRARIES, { method: "HEAD" }).catch(() => ({ ok: true }))).ok;
  const lines = missing
    ? ["The page's libraries are not installed.", "On the office's machine run: make setup (or: python -m services.gateway.assets). Then reload."]
    : ["The page could not start: " + error.message, "Reload the page. If that does not help, see the log of the gateway."];
  main.replaceChildren(...lines.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
  main.setAttribute("role", "alert");
}

import("./main.js").then((page) => page.start(document.getElementById("app"))).catch(explain);

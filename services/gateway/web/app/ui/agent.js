// An agent's chip. Its hue is the same everywhere: lane, chip, bar and node.

import { html } from "./html.js";

/** The agents of every office; each has a colour of its own among the tokens. */
export const AGENTS = ["conductor", "engineer", "scout", "critic", "nexus", "cortex", "frontier", "memory"];
const KNOWN = new Set([...AGENTS, "user", "gateway"]);
const HUES = [15, 45, 75, 105, 135, 165, 195, 225, 255, 285, 315, 345];

/** The colour of an agent, as CSS; the same for the same name in every session. */
export function agentColour(name) {
  if (KNOWN.has(name)) return `var(--agent-${name})`;
  let hash = 0;
  for (const letter of name || "") hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
  const hue = HUES[hash % HUES.length];
  return `light-dark(oklch(46% 0.12 ${hue}), oklch(78% 0.11 ${hue}))`;
}

/** The name as people read it. */
export function agentName(name, person = "") {
  return name === "user" ? person || "you" : name || "office";
}

export function AgentChip({ name, person = "", href = "" }) {
  const style = { "--c": agentColour(name) };
  const text = agentName(name, person);
  return href
    ? html`<a class="agent" style=${style} href=${href}>${text}</a>`
    : html`<span class="agent" style=${style}>${text}</span>`;
}

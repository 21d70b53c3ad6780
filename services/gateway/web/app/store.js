// What more than one view knows: the session, the theme, what waits, the time.

import { effect, signal } from "@preact/signals";

/** Who is signed in: {person, scopes, audience}; null before the answer. */
export const person = signal(null);
/** Whether the gateway said that nobody is signed in. */
export const signedOut = signal(false);
/** How many things wait for a person; null before the answer. */
export const waiting = signal(null);
/** What is known of the office: {names, agents, paused, memory}; each may be missing. */
export const office = signal({});
/** Whether the window is that of a small screen, as in the style sheets. */
export const narrow = signal(matchMedia("(max-width: 720px)").matches);
/** The time in milliseconds, every second while the page is seen. */
export const now = signal(Date.now());
/** "system", "light" or "dark". */
export const theme = signal(remembered("theme") || "system");

/** Whether the person who is signed in may do what a scope covers: read, submit, approve or admin. */
export function may(scope) {
  return Boolean(person.value?.scopes.includes(scope));
}

/** Whether a node of memory is that person's alone. */
export function isMine(node) {
  return Boolean(person.value?.audience) && node.source.channel === `private:${person.value.audience}`;
}

export function remembered(name) {
  try {
    return localStorage.getItem(`mailroom.${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(`mailroom.${name}`);
    else localStorage.setItem(`mailroom.${name}`, value);
  } catch {
    // Without storage it holds until the page is closed.
  }
}

effect(() => {
  const chosen = theme.value;
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  remember("theme", chosen === "system" ? null : chosen);
});

matchMedia("(max-width: 720px)").addEventListener("change", (event) => (narrow.value = event.matches));

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

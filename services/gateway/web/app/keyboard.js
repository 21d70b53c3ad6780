// The keyboard: keys of the view that is shown, keys that work everywhere, and sequences such as "g i".

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

const WAIT = 1200; // ms in which the second key of a sequence has to come
const scopes = [];
let begun = "";
let timer = 0;

/** Grows with every change of what keys there are. */
export const changed = signal(0);

/** Keys of a component as long as it is shown: {"a": {label, run}, "g i": …, "Ctrl+k": …}. Later ones go before earlier ones. */
export function useKeys(keys) {
  const current = useRef(keys);
  current.current = keys;
  useLayoutEffect(() => { // before the next key, not after the next frame
    const scope = { keys: () => current.current };
    scopes.push(scope);
    changed.value += 1;
    return () => {
      scopes.splice(scopes.indexOf(scope), 1);
      changed.value += 1;
    };
  }, []);
}

/** Every key that does something now: [[key, label]], those of the view first. */
export function listKeys() {
  const found = new Map();
  for (const scope of [...scopes].reverse()) {
    for (const [key, { label }] of Object.entries(scope.keys())) if (label && !found.has(key)) found.set(key, label);
  }
  return [...found];
}

/** Focus what `locate` finds once it is drawn, unless a field has the focus by then: a key pressed meanwhile goes before. */
export function focusDrawn(locate) {
  requestAnimationFrame(() => {
    const element = locate();
    if (!document.activeElement?.matches("textarea, select, input")) element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest" });
  });
}

function find(name) {
  for (const scope of [...scopes].reverse()) {
    const found = scope.keys()[name];
    if (found) return found;
  }
  return null;
}

function isPrefix(name) {
  return scopes.some((scope) => Object.keys(scope.keys()).some((key) => key.startsWith(`${name} `)));
}

function nameOf(event) {
  return event.ctrlKey || event.metaKey ? `Ctrl+${event.key.toLowerCase()}` : event.key;
}

function forget() {
  clearTimeout(timer);
  begun = "";
}

/** Whether the key belongs to what has the focus: a field, or Enter and space on a button or link. */
function taken(event) {
  const element = event.target;
  if (event.altKey || event.isComposing) return true;
  if (event.ctrlKey || event.metaKey) return false;
  if (element.closest?.("textarea, select, [contenteditable]")) return event.key !== "Escape";
  if (element.matches?.("input")) return !["checkbox", "radio", "range"].includes(element.type) ? event.key !== "Escape" : [" ", "ArrowLeft", "ArrowRight"].includes(event.key);
  return ["Enter", " "].includes(event.key) && Boolean(element.closest?.("a[href], button, summary, [role=button]")) && !element.closest(".row");
}

function press(event) {
  if (event.defaultPrevented || taken(event)) return;
  if (document.querySelector("dialog[open]") && !event.ctrlKey) return;
  if (event.key === "Escape" && event.target.matches?.("input, textarea")) return event.target.blur();
  const name = nameOf(event);
  const full = begun ? `${begun} ${name}` : name;
  const found = find(full) || (begun && find(name));
  if (!found && isPrefix(name) && !begun) {
    begun = name;
    timer = setTimeout(forget, WAIT);
    return;
  }
  if (!["Shift", "Control", "Alt", "Meta"].includes(event.key)) forget();
  if (!found) return;
  event.preventDefault();
  found.run(event);
}

export function startKeyboard() {
  document.addEventListener("keydown", press);
}

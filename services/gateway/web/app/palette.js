// Ctrl K: places and commands, goals and messages that hold the words one types. "?": the list of keys.

import { at, get } from "./api.js";
import { listCommands } from "./commands.js";
import { listKeys } from "./keyboard.js";
import { navigate } from "./router.js";
import { office } from "./store.js";
import { AGENTS, AgentChip } from "./ui/agent.js";
import { Dialog } from "./ui/dialog.js";
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "./ui/html.js";
import { Outcome } from "./ui/outcome.js";

const PAUSE = 150; // ms after the last key before the office is searched

export const paletteOpen = signal(false);
export const keysOpen = signal(false);

export function Palette() {
  return paletteOpen.value ? html`<${OpenPalette} />` : null;
}

function OpenPalette() {
  const box = useRef(null);
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const { found, problem } = useSearch(text);
  const entries = [...commandEntries(text), ...agentEntries(text), ...found];
  const at = Math.min(chosen, entries.length - 1);
  const close = () => (paletteOpen.value = false);
  useLayoutEffect(() => { // before the next key: letters typed at once go into the field, and not to the keys of the page
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
  }, []);
  useEffect(() => box.current.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [at]);
  const run = (entry) => {
    close();
    entry?.run();
  };
  const press = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setChosen((at + step + entries.length) % Math.max(1, entries.length));
    else if (event.key === "Enter") run(entries[at]);
    else return;
    event.preventDefault();
  };
  const change = (event) => {
    setText(event.target.value);
    setChosen(0);
  };
  return html`<dialog class="palette" ref=${box} aria-label="Search or run a command" onClose=${close} onMouseDown=${(event) => event.target === box.current && close()}>
    <input type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${entries.length ? `palette-${at}` : undefined}
      aria-label="Search or run a command" placeholder="A page, a goal, a word" autofocus spellcheck="false" autocomplete="off" value=${text} onInput=${change} onKeyDown=${press} />
    ${entries.length > 0 && html`<ul id="palette-list" role="listbox" aria-label="Found">${entries.map(
      (entry, index) => html`<li key=${entry.id} id=${`palette-${index}`} role="option" aria-selected=${String(index === at)} onClick=${() => run(entry)}
        ><span class="kind">${entry.kind}</span>${entry.mark}<span class="text">${entry.name}</span>${entry.keys && html`<kbd>${entry.keys}</kbd>`}</li>`,
    )}</ul>`}
    ${!entries.length && html`<p class="none">Nothing has these words.</p>`}${problem && html`<p class="none" role="alert">${problem}</p>`}</dialog>`;
}

function commandEntries(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return listCommands()
    .filter((command) => words.every((word) => command.name.toLowerCase().includes(word)))
    .map((command) => ({ ...command, id: command.name, kind: command.name.startsWith("Go to ") ? "page" : "command" }));
}

function agentEntries(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const named = (office.value.names || AGENTS).filter((name) => words.length && words.every((word) => name.includes(word)));
  return named.map((name) => ({ id: `agent ${name}`, kind: "agent", name: "its state, load and mailbox", mark: html`<${AgentChip} name=${name} />`, run: () => navigate(at`/agents/${name}`) }));
}

/** What the office finds for the text, after a pause in typing. */
function useSearch(text) {
  const [answer, setAnswer] = useState({ found: [], problem: "" });
  useEffect(() => {
    const control = new AbortController();
    const query = text.trim();
    if (!query) {
      setAnswer({ found: [], problem: "" });
      return undefined;
    }
    const timer = setTimeout(async () => {
      try {
        const found = await get("/search", { q: query.slice(0, 200), limit: 12 }, { signal: control.signal });
        setAnswer({ found: [...found.goals.map(goalEntry), ...found.messages.map(messageEntry)], problem: "" });
      } catch (error) {
        if (error.name !== "AbortError") setAnswer({ found: [], problem: error.cause });
      }
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text]);
  return answer;
}

function goalEntry(goal) {
  return {
    id: goal.goal_id,
    kind: "goal",
    name: goal.title,
    mark: html`<${Outcome} status=${goal.status} outcome=${goal.outcome} bare />`,
    run: () => navigate(at`/goals/${goal.goal_id}`),
  };
}

function messageEntry(message) {
  return {
    id: message.stream + message.seq,
    kind: "message",
    name: message.text || message.subject,
    mark: html`<${AgentChip} name=${message.sender} />`,
    run: () => navigate(at`/traffic?message=${message.stream}:${message.seq}`),
  };
}

export function KeyList() {
  if (!keysOpen.value) return null;
  return html`<${Dialog} title="Keys" onClose=${() => (keysOpen.value = false)}><div class="body"><dl class="keys">${listKeys().map(
    ([key, label]) => html`<div key=${key}><dt>${label}</dt><dd><kbd>${key.replace("Ctrl+k", "Ctrl K")}</kbd></dd></div>`,
  )}</dl></div><//>`;
}

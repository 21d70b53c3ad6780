// Chat with the front desk: what one asks, what is done for it, the answer with citations that open beside it.

import { at, get, newKey, post } from "../api.js";
import { useKeys } from "../keyboard.js";
import { setQuery } from "../router.js";
import { may } from "../store.js";
import { Loading, Problem } from "../ui/empty.js";
import { plural } from "../ui/format.js";
import { html, useEffect, useRef, useState } from "../ui/html.js";
import { useLiveResource } from "../ui/resource.js";
import { Ago } from "../ui/time.js";
import { toastError } from "../ui/toast.js";
import { Turn } from "./chat_turn.js";
import { converse } from "./desk_stream.js";
import { NodePanel } from "./memory_panel.js";

const LETTERS = /^mail\.(nexus\.user|user\.nexus)$/;
/** What the front desk can do without a model and without a network. */
const EXAMPLES = [
  ["Ask what the office knows", "What do we know about deploys?"],
  ["Be reminded", "Remind me tomorrow at 9:00 to call Ana"],
  ["Start work", "Check up on the repository at ~/src/"],
];

export default function Chat({ params, query }) {
  const [fresh] = useState(() => `chat-${newKey().slice(0, 16)}`);
  const id = params.id || fresh;
  const sessions = useLiveResource((signal) => get("/desk/sessions", { limit: 50 }, { signal }), [], ({ message }) => LETTERS.test(message.subject), 600);
  const begun = Boolean(params.id);
  return html`<div class=${`chat${query.cite ? " citing" : ""}${begun ? " begun" : ""}`}><${Sessions} sessions=${sessions.data?.sessions || []} current=${id} />
    <${Conversation} key=${id} id=${id} begun=${begun} />
    ${query.cite && html`<${NodePanel} id=${query.cite} onClose=${() => setQuery({ cite: "" })} />`}</div>`;
}

function Sessions({ sessions, current }) {
  return html`<nav class="sessions" aria-label="Conversations"><a class="button" href="/chat">New conversation</a>
    <ul>${sessions.map((each) => html`<li key=${each.session_id}><a href=${at`/chat/${each.session_id}`} aria-current=${each.session_id === current ? "true" : undefined}
      ><span class="title">${each.title || "…"}</span><span class="soft"><${Ago} at=${each.last_at} /> · ${plural(each.questions, "question")}</span></a></li>`)}</ul></nav>`;
}

function Conversation({ id, begun }) {
  const [state, setState] = useState({ turns: [], earlier: 0, loaded: !begun, error: null });
  const [notes, setNotes] = useState({});
  const [words, setWords] = useState({});
  const [draft, setDraft] = useState("");
  const field = useRef(null);
  const end = useRef(null);
  const stopped = useRef(new AbortController());
  useEffect(() => () => stopped.current.abort(), []);
  const put = (turn) => setState((known) => ({ ...known, turns: replaced(known.turns, turn) }));
  const take = (text) => {
    setDraft(text);
    field.current?.focus();
  };
  const note = (message, content) => setNotes((known) => ({ ...known, [message]: [...(known[message] || []), content] }));
  const follow = async (options) => {
    const onEvent = (kind, content) => {
      if (kind === "note") note(options.id, content);
      if (kind === "words") setWords((known) => ({ ...known, [options.id]: (content.number ? known[options.id] || "" : "") + content.text }));
      if (kind === "answer") put(content);
    };
    try {
      const turn = await converse(id, { ...options, onEvent, signal: stopped.current.signal });
      if (!turn || turn.state === "waiting") put({ ...options.turn, state: "late" });
    } catch (error) {
      if (error.name !== "AbortError") put({ ...options.turn, state: "failed", reason: error.cause || error.message, cure: error.cure });
    }
  };
  const say = (text) => {
    const key = newKey();
    const turn = { id: key, session_id: id, at: new Date().toISOString(), person: "", text, state: "waiting", answer: null };
    put(turn);
    if (!begun) history.replaceState(history.state, "", at`/chat/${id}`);
    follow({ id: key, key, text, turn });
  };
  const stop = async (turn) => {
    put({ ...turn, stopping: true });
    try {
      put({ ...(await stopTurn(id, turn.id)), stopping: false });
    } catch (error) {
      put({ ...turn, stopping: false });
      toastError(error);
    }
  };
  const read = async (before = 0) => {
    try {
      const session = await get(at`/desk/sessions/${id}`, { before });
      setState((known) => ({ turns: [...session.turns, ...known.turns], earlier: session.earlier, loaded: true, error: null }));
      for (const turn of session.turns) if (turn.state === "waiting") follow({ id: turn.id, message: turn.id, turn });
    } catch (error) {
      setState((known) => ({ ...known, loaded: true, error }));
    }
  };
  useEffect(() => {
    if (begun) read();
  }, []);
  // an answer that comes after "later", or after that of the rules
  const latest = useLiveResource(async (signal) => (state.turns.length ? get(at`/desk/sessions/${id}`, {}, { signal }) : null), [id], ({ message }) => LETTERS.test(message.subject), 600);
  useEffect(() => latest.data?.turns.forEach((turn) => turn.state === "answered" && put(turn)), [latest.data]);
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [state.turns.length, state.turns.at(-1)?.state, state.loaded, words[state.turns.at(-1)?.id]]);
  return html`<section class="conversation" aria-label="Conversation"><h1>${state.turns[0]?.text.split("\n")[0].slice(0, 120) || (state.loaded ? "Ask the front desk" : "The front desk")}</h1>
    ${state.error && html`<${Problem} error=${state.error} />`}${!state.loaded && html`<${Loading} what="the conversation" />`}
    ${state.earlier > 0 && html`<p><button type="button" onClick=${() => read(state.earlier)}>Earlier</button></p>`}
    ${state.loaded && !state.turns.length && !state.error && html`<${Begin} onTry=${take} />`}
    <ol class="turns" aria-live="polite" aria-relevant="additions text">${state.turns.map((turn) => html`<${Turn} key=${turn.id} turn=${turn} notes=${notes[turn.id] || []} words=${words[turn.id] || ""}
      last=${turn === state.turns.at(-1)} onAgain=${() => say(turn.text)} onSay=${say} onStop=${() => stop(turn)} />`)}</ol>
    <div class="end" ref=${end}></div><${Composer} field=${field} text=${draft} onText=${setDraft} onSay=${say} /></section>`;
}

/** Stop a turn. One that was just sent is not known to the gateway's index yet: tried again for 5 seconds. */
async function stopTurn(session, message, tries = 20) {
  try {
    return await post(at`/desk/sessions/${session}/messages/${message}/stop`);
  } catch (error) {
    if (error.status !== 404 || !tries) throw error;
  }
  await new Promise((done) => setTimeout(done, 250));
  return stopTurn(session, message, tries - 1);
}

function replaced(turns, turn) {
  const known = turns.some((each) => each.id === turn.id);
  return known ? turns.map((each) => (each.id === turn.id ? { ...each, ...turn } : each)) : [...turns, turn];
}

function Begin({ onTry }) {
  return html`<p class="soft lead">It answers from what the office remembers, with citations, keeps your reminders, and gives work to the agents. This works without a model and without a network:</p>
    <ul class="examples">${EXAMPLES.map(([title, text]) => html`<li key=${title}><button type="button" onClick=${() => onTry(text)}><b>${title}</b><span>${text}</span></button></li>`)}</ul>`;
}

function Composer({ field, text, onText, onSay }) {
  const allowed = may("submit");
  useKeys({ "/": { label: "write a message", run: () => field.current?.focus() } });
  useEffect(() => {
    if (matchMedia("(min-width: 721px)").matches) field.current?.focus({ preventScroll: true });
  }, []);
  const send = (event) => {
    event?.preventDefault();
    if (!text.trim()) return;
    onSay(text.trim());
    onText("");
  };
  const press = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    send(event);
  };
  if (!allowed) return html`<p class="soft composer">You may read conversations, and not take part: that needs the scope <code>submit</code>.</p>`;
  return html`<form class="composer" onSubmit=${send}><label class="visually-hidden" for="say">Message to the front desk</label>
    <textarea id="say" ref=${field} rows="2" value=${text} placeholder="Ask something, or say what is to be done" onInput=${(event) => onText(event.target.value)} onKeyDown=${press}></textarea>
    <button class="primary" disabled=${!text.trim()}>Send <kbd aria-hidden="true">Enter</kbd></button></form>`;
}

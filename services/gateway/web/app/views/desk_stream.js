// What the front desk answers, as it is made: a request whose answer is a stream of events.

import { ApiError, address } from "../api.js";
import { signedOut } from "../store.js";

/**
 * Say something in a session, or follow what was said (`message` is its id): calls `onEvent(kind, content)` with "accepted",
 * "note", "words" and "answer", and resolves with the turn of the answer.
 */
export async function converse(session, { text = "", message = "", key = "", onEvent, signal }) {
  const path = `/desk/sessions/${encodeURIComponent(session)}/messages${message ? `/${encodeURIComponent(message)}` : ""}`;
  const headers = { Accept: "text/event-stream" };
  const options = { method: message ? "GET" : "POST", headers, signal, credentials: "same-origin", cache: "no-store" };
  if (!message) {
    options.body = JSON.stringify({ text });
    Object.assign(headers, { "Content-Type": "application/json", "Idempotency-Key": key });
  }
  const answer = await fetch(address(path), options).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "No connection", "The office does not answer.", "Is it running? Start it with: mailroom up");
  });
  if (!answer.ok) await fail(answer);
  let turn = null;
  for await (const [kind, content] of readEvents(answer.body)) {
    onEvent?.(kind, content);
    if (kind === "answer") turn = content;
  }
  return turn;
}

async function fail(answer) {
  if (answer.status === 401) signedOut.value = true;
  const problem = await answer.json().catch(() => ({}));
  const title = problem.title || `The office answered ${answer.status}`;
  throw new ApiError(answer.status, title, problem.detail || title, problem.cure || "");
}

async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true })); // a lost connection ends it; the session has the rest
    if (done) return;
    const frames = (held + value).split("\n\n");
    held = frames.pop();
    for (const frame of frames) {
      const lines = frame.split("\n");
      const of = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (of("data")) yield [of("event") || "message", JSON.parse(of("data"))];
    }
  }
}

// Dialogs over the page. `ask` asks one question and resolves with the answer.

import { html, signal, useLayoutEffect, useRef } from "./html.js";

/** A dialog that is open as long as it is shown; Esc and a click beside it call `onClose`. */
export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  // Before the next key arrives: who types "z Enter" at once answers the question, and does not press Enter on the page.
  useLayoutEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
  }, []);
  const close = (event) => {
    event.preventDefault();
    onClose();
  };
  const beside = (event) => event.target === box.current && onClose();
  return html`<dialog class="dialog" ref=${box} aria-label=${title} onCancel=${close} onMouseDown=${beside}><h2>${title}</h2>${children}</dialog>`;
}

const question = signal(null);

/**
 * Ask for a confirmation or, with `field` (its label), for a text. Resolves with the text, true, or null if it was called off.
 * `text` says what will happen; `yes` is the word on the button; `danger` if it ends or deletes something, `word` what is to be typed first.
 */
export function ask({ title, text = "", yes = "Yes", danger = false, field = "", value = "", required = true, word = "" }) {
  question.value?.resolve(null);
  return new Promise((resolve) => {
    question.value = { title, text, yes, danger, field, value, required, word, resolve };
  });
}

/** Where questions of `ask` appear; once in the shell. */
export function Questions() {
  const asked = question.value;
  if (!asked) return null;
  const answer = (value) => {
    question.value = null;
    asked.resolve(value);
  };
  const submit = (event) => {
    event.preventDefault();
    answer(asked.field ? event.target.elements.text.value.trim() : true);
  };
  const sendByKey = (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && event.target.form.requestSubmit();
  return html`<${Dialog} title=${asked.title} onClose=${() => answer(null)}><form onSubmit=${submit}>
    ${asked.text && html`<p>${asked.text}</p>`}
    ${asked.field && html`<label>${asked.field}<textarea name="text" required=${asked.required} autofocus onKeyDown=${sendByKey}>${asked.value}</textarea></label>`}
    ${asked.word && html`<label>Type ${asked.word} to confirm<input name="word" required autofocus autocomplete="off" pattern=${asked.word} title=${`Type ${asked.word}`} /></label>`}
    <div class="actions"><button type="button" onClick=${() => answer(null)}>Not now</button>
      <button class=${asked.danger ? "danger" : "primary"} autofocus=${!asked.field && !asked.word}>${asked.yes}</button></div></form><//>`;
}

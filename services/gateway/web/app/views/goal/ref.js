// A piece of evidence: a file or a memory opens at the side, a page of the web in a tab of its own.

import { html } from "../../ui/html.js";

export function Ref({ name, title = "", onOpen }) {
  if (/^https?:\/\/[^\s/]/i.test(name)) {
    return html`<a class="evidence" href=${name} title=${title || name} target="_blank" rel="noopener noreferrer nofollow">${short(name)}</a>`;
  }
  return html`<button type="button" class="evidence" title=${title || name} onClick=${() => onOpen(name)}>${short(name)}</button>`;
}

/** The end of a long path: what one tells files apart by. */
function short(name) {
  if (name.length <= 48) return name;
  const parts = name.split("/");
  const last = parts[parts.length - 1];
  return last.length <= 48 ? last || name : `…${name.slice(-47)}`;
}

// What a view shows if there is nothing yet: what it would show, and what to do first.

import { html } from "./html.js";

export function Empty({ title, children, action = null }) {
  return html`<section class="empty"><h2>${title}</h2><p>${children}</p>${action && html`<p>${action}</p>`}</section>`;
}

export function Loading({ what = "" }) {
  return html`<p class="loading" role="status">Loading${what ? ` ${what}` : ""} …</p>`;
}

/** What went wrong and what helps; `retry` is called by its button. */
export function Problem({ error, retry = null }) {
  return html`<section class="problem" role="alert"><p><b>${error.cause || error.message}</b></p>
    ${error.cure && html`<p>${error.cure}</p>`}${retry && html`<button type="button" onClick=${retry}>Try again</button>`}</section>`;
}

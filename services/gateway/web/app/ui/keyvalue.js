// Names and what they are, in two columns; pairs with nothing are left out.

import { Fragment, html } from "./html.js";

export function KeyValue({ pairs }) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return html`<dl class="pairs">${shown.map(([name, value]) => html`<${Fragment} key=${name}><dt>${name}</dt><dd>${value}</dd><//>`)}</dl>`;
}

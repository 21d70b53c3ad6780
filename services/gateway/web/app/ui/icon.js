// Drawn signs of the places, one stroke, in the colour of the text beside them.

import { html } from "./html.js";

const SHAPES = {
  inbox: html`<path d="M2 9.5 4 3h8l2 6.5V13H2zM2 9.5h3.5l1 1.5h3l1-1.5H14" />`,
  board: html`<path d="M2.5 3h3v10h-3zM6.5 3h3v6h-3zM10.5 3h3v8h-3z" />`,
  traffic: html`<path d="M2 5h11M10 2l3 3-3 3M14 11H3M6 8l-3 3 3 3" />`,
  agents: html`<circle cx="6" cy="5" r="2.5" /><path d="M1.5 13.5c0-3 2-4.5 4.5-4.5s4.5 1.5 4.5 4.5M10.5 2.8a2.4 2.4 0 0 1 0 4.5M12 9.3c1.6.6 2.5 2 2.5 4.2" />`,
  memory: html`<circle cx="4" cy="4" r="2" /><circle cx="12" cy="6" r="2" /><circle cx="6" cy="12" r="2" /><path d="m5.9 4.5 4.1 1M4.5 6l1 4M10.6 7.4 7.5 10.6" />`,
  chat: html`<path d="M2 3h12v8H7.5L4.5 13.5V11H2z" />`,
  morning: html`<path d="M1.5 12.5h13M4 10a4 4 0 0 1 8 0M8 1.5v2.5M2.5 4.5l1.7 1.7M13.5 4.5l-1.7 1.7" />`,
  timetable: html`<circle cx="8" cy="8" r="6" /><path d="M8 4.5V8l2.5 1.5" />`,
  deliveries: html`<path d="M8 2a4 4 0 0 1 4 4v3l1.5 2.5h-11L4 9V6a4 4 0 0 1 4-4zM6.5 13.5h3" />`,
  figures: html`<path d="M2 2v12h12M4.5 10.5 7.5 7l2.5 2 3.5-4.5" />`,
  find: html`<circle cx="7" cy="7" r="4.5" /><path d="m10.5 10.5 3.5 3.5" />`,
  more: html`<path d="M3 8h.01M8 8h.01M13 8h.01" class="dots" />`,
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">${SHAPES[name]}</svg>`;
}

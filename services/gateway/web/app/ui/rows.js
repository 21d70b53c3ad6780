// A list of any length: only the rows that are seen exist. j and k move, Enter opens; each row can be a link.

import { focusDrawn, useKeys } from "../keyboard.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

const SPARE = 8; // rows kept above and below what is seen

/**
 * count: rows. render(index): the content of one. keyOf(index): what tells it from others. href(index): its address, if it has one.
 * selected: the index that is marked, or -1; onSelect(index); onOpen(index): what Enter and a click do, instead of going to its
 * address. height: of one row in px. tall: the CSS height at most. added: how many rows were ever put in front; what one reads
 * stays where it is when it grows. onEnd: called when the last row is seen.
 */
export function Rows({ count, render, keyOf, href, selected = -1, onSelect, onOpen, height = 36, tall = "calc(100vh - 230px)", label, added = 0, onEnd, keys = true }) {
  const box = useRef(null);
  const focusNext = useRef(false);
  const [seen, setSeen] = useState({ top: 0, size: 800 });
  useViewport(box, setSeen);
  useStay(box, added * height);
  const first = Math.max(0, Math.floor(seen.top / height) - SPARE);
  const end = Math.min(count, Math.ceil((seen.top + seen.size) / height) + SPARE);
  useEffect(() => {
    if (onEnd && count && end >= count) onEnd();
  }, [end, count]);
  useEffect(() => {
    if (selected < 0 || !box.current) return;
    reveal(box.current, selected, height);
    if (focusNext.current) focusDrawn(() => box.current?.querySelector(".row.selected"));
    focusNext.current = false;
  }, [selected]);
  const move = (step) => {
    if (!count) return;
    focusNext.current = true;
    onSelect?.(Math.max(0, Math.min(count - 1, selected < 0 ? first + (first ? SPARE : 0) : selected + step)));
  };
  useKeys(keys ? rowKeys(move, () => selected >= 0 && open(box.current, selected, onOpen)) : {});
  const stop = selected >= first && selected < end ? selected : first;
  const rows = [];
  for (let index = first; index < end; index += 1) {
    rows.push(html`<${Row} key=${keyOf(index)} index=${index} count=${count} height=${height} href=${href?.(index)} selected=${index === selected}
      stop=${index === stop} onOpen=${onOpen} onSelect=${onSelect}>${render(index)}<//>`);
  }
  return html`<div class="rows" role="list" aria-label=${label} ref=${box} style=${{ maxHeight: tall, height: `${count * height + 1}px` }}
    ><div class="space" role="presentation" style=${{ height: `${count * height}px` }}>${rows}</div></div>`;
}

function Row({ index, count, height, href, selected, stop, onOpen, onSelect, children }) {
  const click = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    onSelect?.(index);
    if (!onOpen) return;
    event.preventDefault();
    onOpen(index);
  };
  const style = { top: `${index * height}px`, height: `${height}px` };
  const shared = { class: `row${selected ? " selected" : ""}${href || onOpen ? " opens" : ""}`, style, tabIndex: stop ? 0 : -1, onClick: click };
  const inner = href
    ? html`<a ...${shared} href=${href} aria-current=${selected ? "true" : undefined}>${children}</a>`
    : html`<div ...${shared} role=${onOpen ? "button" : undefined} aria-pressed=${onOpen ? String(selected) : undefined} onKeyDown=${onOpen && pressed(click)}>${children}</div>`;
  return html`<div role="listitem" aria-setsize=${count} aria-posinset=${index + 1}>${inner}</div>`;
}

function pressed(click) {
  return (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    click(event);
  };
}

function rowKeys(move, openSelected) {
  return {
    j: { label: "next row", run: () => move(1) },
    k: { label: "row before", run: () => move(-1) },
    Enter: { label: "open", run: openSelected },
  };
}

function open(box, selected, onOpen) {
  if (onOpen) onOpen(selected);
  else box?.querySelector("a.row.selected")?.click();
}

function reveal(box, index, height) {
  const top = index * height;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
}

/** Follow what part of the box is seen. */
function useViewport(box, setSeen) {
  useEffect(() => {
    const element = box.current;
    let asked = 0;
    const look = () => {
      cancelAnimationFrame(asked);
      asked = requestAnimationFrame(() => setSeen({ top: element.scrollTop, size: element.clientHeight || 800 }));
    };
    const watch = new ResizeObserver(look);
    watch.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      cancelAnimationFrame(asked);
      watch.disconnect();
    };
  }, []);
}

/** Keep what one reads in place when rows come in front. */
function useStay(box, offset) {
  const before = useRef(offset);
  useLayoutEffect(() => {
    const grown = offset - before.current;
    before.current = offset;
    if (grown > 0 && box.current && box.current.scrollTop > 0) box.current.scrollTop += grown;
  }, [offset]);
}

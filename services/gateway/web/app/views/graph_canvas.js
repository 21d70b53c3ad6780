// The graph of memory on a canvas, at the places of graph_places.js. Drag or arrow keys move, the wheel or + and - zoom, a
// click or Enter selects. The table beside it has the same nodes for everybody else.

import { theme } from "../store.js";
import { html, useEffect, useRef, useState } from "../ui/html.js";
import { paint, project } from "./graph_paint.js";

const ZOOM = [0.5, 12];
const REACH = 12; // px around a node in which a click counts

/**
 * layout: {nodes, edges} of the API, with places; selected: an id; onSelect(id or ""); marked: a Set of ids that are to stand out, or null;
 * label: what a screen reader says of it.
 */
export function GraphCanvas({ layout, selected, onSelect, marked = null, label }) {
  const canvas = useRef(null);
  const camera = useRef({ zoom: 1, x: 0, y: 0 });
  const [hovered, setHovered] = useState("");
  const state = useRef(null);
  state.current = { layout, selected, marked, hovered, camera: camera.current };
  const draw = useDrawing(canvas, state);
  useEffect(() => uncover(state.current, canvas.current), [selected]);
  useEffect(draw, [layout, selected, marked, hovered, theme.value]);
  useEffect(() => bindPointer(canvas.current, { state, draw, onSelect, setHovered }), [onSelect]);
  const act = (step) => {
    step(camera.current, canvas.current);
    draw();
  };
  const press = (event) => pressKey(event, state.current, canvas.current, act, onSelect);
  return html`<div class="graph"><canvas ref=${canvas} tabindex="0" role="img" aria-label=${label} onKeyDown=${press}></canvas>
    <div class="zoom" role="group" aria-label="Zoom"><button type="button" aria-label="Closer" title="Closer: +" onClick=${() => act(zoomBy(1.4))}>+</button
    ><button type="button" aria-label="Farther" title="Farther: −" onClick=${() => act(zoomBy(1 / 1.4))}>−</button
    ><button type="button" aria-label="Whole graph" title="Whole graph: 0" onClick=${() => act(fit)}>⤢</button></div></div>`;
}

function fit(camera) {
  Object.assign(camera, { zoom: 1, x: 0, y: 0 });
}

/** Move the picture so that the node that was selected is in it. */
function uncover({ layout, selected, camera }, canvas) {
  const node = layout.nodes.find((each) => each.id === selected);
  if (!node) return;
  const [x, y] = project(node, camera, canvas);
  if (x < 0 || x > canvas.clientWidth) camera.x += canvas.clientWidth / 2 - x;
  if (y < 0 || y > canvas.clientHeight) camera.y += canvas.clientHeight / 2 - y;
}

function zoomBy(factor, at = null) {
  return (camera, canvas) => {
    const next = Math.min(ZOOM[1], Math.max(ZOOM[0], camera.zoom * factor));
    const [x, y] = at || [canvas.clientWidth / 2, canvas.clientHeight / 2];
    const ratio = next / camera.zoom;
    camera.x = x - canvas.clientWidth / 2 - ratio * (x - canvas.clientWidth / 2 - camera.x);
    camera.y = y - canvas.clientHeight / 2 - ratio * (y - canvas.clientHeight / 2 - camera.y);
    camera.zoom = next;
  };
}

/** A function that draws once in the next frame; it is called by itself when the canvas or the theme changes. */
function useDrawing(canvas, state) {
  const asked = useRef(0);
  const draw = () => {
    cancelAnimationFrame(asked.current);
    asked.current = requestAnimationFrame(() => canvas.current && paint(canvas.current, state.current));
  };
  useEffect(() => {
    const watch = new ResizeObserver(draw);
    watch.observe(canvas.current);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    return () => {
      watch.disconnect();
      dark.removeEventListener("change", draw);
      cancelAnimationFrame(asked.current);
    };
  }, []);
  return draw;
}

// --- pointer and keys -----------------------------------------------------------------------------------

function nearest({ layout, camera }, canvas, x, y, reach = REACH) {
  let best = "";
  let least = reach ** 2;
  for (const node of layout.nodes) {
    const [nodeX, nodeY] = project(node, camera, canvas);
    const far = (nodeX - x) ** 2 + (nodeY - y) ** 2;
    if (far < least) [best, least] = [node.id, far];
  }
  return best;
}

function bindPointer(canvas, { state, draw, onSelect, setHovered }) {
  const down = new Map();
  let moved = 0;
  const place = (event) => [event.offsetX, event.offsetY];
  const handlers = {
    pointerdown(event) {
      canvas.setPointerCapture(event.pointerId);
      down.set(event.pointerId, place(event));
      moved = 0;
    },
    pointermove(event) {
      const [x, y] = place(event);
      if (!down.has(event.pointerId)) return setHovered(nearest(state.current, canvas, x, y));
      const before = down.get(event.pointerId);
      if (down.size === 2) pinch(state.current.camera, canvas, down, event, [x, y]);
      else {
        state.current.camera.x += x - before[0];
        state.current.camera.y += y - before[1];
      }
      moved += Math.hypot(x - before[0], y - before[1]);
      down.set(event.pointerId, [x, y]);
      draw();
    },
    pointerup(event) {
      down.delete(event.pointerId);
      if (moved < 5) onSelect(nearest(state.current, canvas, ...place(event)));
    },
    pointercancel: (event) => down.delete(event.pointerId),
    pointerleave: () => setHovered(""),
    wheel(event) {
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY / 400), place(event))(state.current.camera, canvas);
      draw();
    },
  };
  for (const [name, handler] of Object.entries(handlers)) canvas.addEventListener(name, handler, name === "wheel" ? { passive: false } : undefined);
  return () => Object.entries(handlers).forEach(([name, handler]) => canvas.removeEventListener(name, handler));
}

function pinch(camera, canvas, down, event, [x, y]) {
  const [, other] = [...down].find(([id]) => id !== event.pointerId);
  const before = down.get(event.pointerId);
  const far = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
  zoomBy(far([x, y]) / far(before), [(x + other[0]) / 2, (y + other[1]) / 2])(camera, canvas);
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function pressKey(event, state, canvas, act, onSelect) {
  const step = { "+": zoomBy(1.4), "=": zoomBy(1.4), "-": zoomBy(1 / 1.4), 0: fit }[event.key];
  const way = ARROWS[event.key];
  if (event.ctrlKey || event.metaKey || (!step && !way)) return;
  event.preventDefault();
  if (step) act(step);
  else if (event.shiftKey) act((camera) => Object.assign(camera, { x: camera.x - way[0] * 40, y: camera.y - way[1] * 40 }));
  else onSelect(next(state, canvas, way));
}

/** The nearest node in the direction of an arrow key, seen from the one that is selected; without one, the nearest to the middle. */
function next({ layout, selected, camera }, canvas, [right, down]) {
  const middle = [canvas.clientWidth / 2, canvas.clientHeight / 2];
  const from = layout.nodes.find((node) => node.id === selected);
  if (!from) return nearest({ layout, camera }, canvas, ...middle, Infinity);
  const [x, y] = project(from, camera, canvas);
  let best = selected;
  let least = Infinity;
  for (const node of layout.nodes) {
    if (node.id === selected) continue;
    const [nodeX, nodeY] = project(node, camera, canvas);
    const along = (nodeX - x) * right + (nodeY - y) * down;
    const across = Math.abs((nodeX - x) * down + (nodeY - y) * right);
    const far = along + 2.5 * across;
    if (along > 1 && far < least) [best, least] = [node.id, far];
  }
  return best;
}

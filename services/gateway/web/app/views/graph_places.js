// Where the nodes of the graph are drawn: forces of d3-force move them from places that follow from their ids, so that the same
// graph always looks the same. What was seen stays where it is, in whatever version, unless a quarter of the picture is new.

import "d3-dispatch";
import "d3-quadtree";
import "d3-timer";
import "d3-force";
import { useEffect, useState } from "../ui/html.js";

const { forceLink, forceManyBody, forceSimulation, forceX, forceY } = globalThis.d3;

const NEW = 0.25; // The share of a picture that may be new since all of it was last laid out together
const TICKS = 120; // 0.3 s for 1,000 nodes on two slow cores, 0.7 s for 2,000
const SLICE = 12; // ms that the forces may have of one frame
const SPREAD = 300; // How far from the middle nodes begin, in the units of the forces
const BESIDE = 18; // How far from the middle of its neighbours a new node begins

/** What nodes were drawn where, those of the last picture that was laid out as a whole, and the units of the forces for 1. */
export function makePlan() {
  return { places: new Map(), settled: new Set(), scale: SPREAD };
}

const shared = makePlan();

/** The layout, with x and y of -1 to 1 for each node, once they are at rest; until then the one before, at first null. */
export function usePlaces(layout) {
  const [placed, setPlaced] = useState(null);
  useEffect(() => layout && place(layout, shared, setPlaced), [layout]);
  return placed;
}

/** Pass on the layout with places, at once if the plan has them all; returns a function that gives it up. */
export function place(layout, plan, done) {
  const { nodes, edges } = layout;
  const whole = nodes.filter((node) => plan.settled.has(node.id)).length < (1 - NEW) * nodes.length;
  const known = nodes.filter((node) => plan.places.has(node.id)).length;
  if (whole) plan = Object.assign(plan, { scale: SPREAD });
  const points = begin(nodes, edges, plan, whole);
  const forces = forceSimulation(points)
    .force("link", forceLink(edges.map((edge) => ({ source: edge.start, target: edge.end, weight: edge.weight }))).distance(14).strength((link) => 0.5 * link.weight))
    .force("charge", forceManyBody().strength(-20))
    .force("x", forceX().strength(0.06))
    .force("y", forceY().strength(0.06))
    .alphaDecay(1 - 0.001 ** (1 / TICKS))
    .stop();
  let left = whole || known < nodes.length ? TICKS : 0;
  let frame = 0;
  const go = () => {
    const end = performance.now() + SLICE;
    while (left > 0 && performance.now() < end) {
      forces.tick();
      left -= 1;
    }
    if (left > 0) frame = requestAnimationFrame(go);
    else done({ ...layout, nodes: settle(nodes, points, plan, whole) });
  };
  go();
  return () => cancelAnimationFrame(frame);
}

/** Where each begins: where it was, beside the neighbours that are known, or where its id says. */
function begin(nodes, edges, plan, whole) {
  const seen = nodes.map((node) => plan.places.get(node.id));
  const sums = nodes.map(() => [0, 0, 0]);
  for (const { start, end } of edges) {
    for (const [one, other] of [[start, end], [end, start]]) {
      if (seen[one] || !seen[other]) continue;
      sums[one][0] += seen[other].x;
      sums[one][1] += seen[other].y;
      sums[one][2] += 1;
    }
  }
  return nodes.map((node, index) => {
    const [x, y] = scatter(node.id);
    if (seen[index]) {
      const point = { x: seen[index].x * plan.scale, y: seen[index].y * plan.scale };
      return whole ? point : { ...point, fx: point.x, fy: point.y };
    }
    const [right, down, count] = sums[index];
    if (!count) return { x: x * plan.scale, y: y * plan.scale };
    return { x: (right / count) * plan.scale + BESIDE * x, y: (down / count) * plan.scale + BESIDE * y };
  });
}

/** A place in the unit circle that depends on the id alone (FNV-1a). */
function scatter(id) {
  let hash = 2166136261;
  for (const letter of `${id}  `) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619);
  const angle = (2 * Math.PI * (hash & 0xffff)) / 0x10000;
  const far = Math.sqrt((hash >>> 16) / 0x10000);
  return [far * Math.cos(angle), far * Math.sin(angle)];
}

/** The nodes with their places, which the plan keeps; a whole picture is put into the middle, as large as fits. */
function settle(nodes, points, plan, whole) {
  const [x, y] = whole ? [middle(points.map((point) => point.x)), middle(points.map((point) => point.y))] : [0, 0];
  if (whole) {
    plan.scale = points.reduce((most, point) => Math.max(most, Math.abs(point.x - x), Math.abs(point.y - y)), 1);
    plan.places = new Map();
    plan.settled = new Set(nodes.map((node) => node.id));
  }
  const within = (number) => Math.max(-1, Math.min(1, number));
  return nodes.map((node, index) => {
    const seen = plan.places.get(node.id);
    const point = seen || { x: within((points[index].x - x) / plan.scale), y: within((points[index].y - y) / plan.scale) };
    plan.places.set(node.id, point);
    return { ...node, ...point };
  });
}

function middle(numbers) {
  return numbers.length ? (numbers.reduce((a, b) => Math.max(a, b)) + numbers.reduce((a, b) => Math.min(a, b))) / 2 : 0;
}

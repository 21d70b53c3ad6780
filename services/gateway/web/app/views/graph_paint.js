// How the graph of memory is drawn: edges and nodes of one look in one stroke, labels where there is room.

import { agentColour } from "../ui/agent.js";

const MARGIN = 34;
const LABEL_AREA = 9000; // px² of the canvas for each label; more labels when one is nearer
const LABELS = 70; // at most
const STYLES = {
  contradicts: { colour: "var(--bad)", dash: [4, 3] },
  supersedes: { colour: "var(--wait)", dash: [] },
};

/** Where a node is drawn, in px. */
export function project(node, camera, canvas) {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  return [
    width / 2 + camera.x + node.x * camera.zoom * (width / 2 - MARGIN),
    height / 2 + camera.y + node.y * camera.zoom * (height / 2 - MARGIN),
  ];
}

/** How large nodes are drawn: smaller in a crowd, larger when one is near. */
function sizeOf({ nodes }, { zoom }) {
  return Math.max(0.4, Math.min(1, Math.sqrt(220 / nodes.length))) * Math.min(2.2, Math.max(0.8, zoom ** 0.5));
}

function radius(node, size) {
  return (2.5 + 3 * node.importance + Math.min(6, Math.sqrt(node.degree))) * size;
}

/** Draw a state: {layout, selected, marked, hovered, camera}. */
export function paint(canvas, { layout, selected, marked, hovered, camera }) {
  const begun = performance.now();
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== width * scale || canvas.height !== height * scale) Object.assign(canvas, { width: width * scale, height: height * scale });
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const colours = readColours(canvas);
  const places = layout.nodes.map((node) => project(node, camera, canvas));
  const size = sizeOf(layout, camera);
  const focus = layout.nodes.findIndex((node) => node.id === (selected || hovered));
  paintEdges(context, layout, places, colours, focus);
  paintNodes(context, layout, places, colours, { marked, size });
  paintRing(context, layout, places, colours, selected, size);
  paintLabels(context, layout, places, colours, { width, height, selected, hovered, marked, zoom: camera.zoom, size });
  canvas.dataset.ms = (performance.now() - begun).toFixed(1); // tests read it
}

/** Colours as the style sheet has them now: a canvas knows no variables. */
function readColours(canvas) {
  const known = new Map();
  const of = (colour) => {
    if (!known.has(colour)) known.set(colour, resolve(canvas, colour));
    return known.get(colour);
  };
  return { of, agent: (name) => of(agentColour(name)) };
}

const probes = new WeakMap();

function resolve(canvas, colour) {
  if (!probes.has(canvas)) probes.set(canvas, canvas.parentElement.appendChild(Object.assign(document.createElement("i"), { hidden: true })));
  const probe = probes.get(canvas);
  probe.style.color = colour;
  return getComputedStyle(probe).color;
}

/** One stroke for all edges of a look: 5,000 single ones would take ten times as long. */
function paintEdges(context, { edges }, places, colours, focus) {
  const looks = new Map();
  const faint = 0.42 * Math.max(0.25, Math.min(1, Math.sqrt(400 / (edges.length || 1))));
  for (const edge of edges) {
    const near = focus >= 0 && (edge.start === focus || edge.end === focus);
    const special = STYLES[edge.relation] ? edge.relation : "other";
    const name = `${special} ${near}`;
    if (!looks.has(name)) looks.set(name, { special, near, edges: [] });
    looks.get(name).edges.push(edge);
  }
  for (const { special, near, edges: same } of looks.values()) {
    const { colour, dash } = STYLES[special] || { colour: near ? "var(--ink)" : "var(--edge)", dash: [] };
    context.beginPath();
    for (const edge of same) {
      context.moveTo(...places[edge.start]);
      context.lineTo(...places[edge.end]);
    }
    context.setLineDash(dash);
    context.strokeStyle = colours.of(colour);
    context.globalAlpha = near ? 0.9 : special === "other" ? faint : 0.8;
    context.lineWidth = near ? 1.6 : 1;
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

/** Filled while they hold; rings, and faint, if they were superseded or forgotten. */
function paintNodes(context, { nodes }, places, colours, { marked, size }) {
  const groups = new Map();
  nodes.forEach((node, index) => {
    const faint = marked ? !marked.has(node.id) : false;
    const name = `${node.agent} ${node.standing} ${faint}`;
    if (!groups.has(name)) groups.set(name, { node, faint, members: [] });
    groups.get(name).members.push(index);
  });
  for (const { node, faint, members } of groups.values()) {
    context.beginPath();
    for (const index of members) {
      const [x, y] = places[index];
      const wide = radius(nodes[index], size);
      context.moveTo(x + wide, y);
      context.arc(x, y, wide, 0, 2 * Math.PI);
    }
    const holds = node.standing === "current";
    context.globalAlpha = (faint ? 0.18 : 1) * (holds ? 0.92 : 0.55);
    context.fillStyle = holds ? colours.agent(node.agent) : colours.of("var(--panel)");
    context.fill();
    if (holds) continue;
    context.setLineDash(node.standing === "forgotten" ? [2, 2] : []);
    context.strokeStyle = colours.agent(node.agent);
    context.lineWidth = 1.4;
    context.stroke();
    context.setLineDash([]);
  }
  context.globalAlpha = 1;
}

function paintRing(context, { nodes }, places, colours, selected, size) {
  const index = nodes.findIndex((node) => node.id === selected);
  if (index < 0) return;
  context.beginPath();
  context.arc(...places[index], radius(nodes[index], size) + 4, 0, 2 * Math.PI);
  context.strokeStyle = colours.of("var(--ink)");
  context.lineWidth = 2;
  context.stroke();
}

/** Titles of what is looked at, and of the largest nodes as far as no two of them overlap. */
function paintLabels(context, { nodes }, places, colours, { width, height, selected, hovered, marked, zoom, size }) {
  const first = (node) => (node.id === selected || node.id === hovered ? 1e6 : 0) + (marked?.has(node.id) ? 1e3 : 0);
  const order = nodes.map((node, index) => ({ node, index, rank: first(node) + node.degree + node.importance * 3 }));
  order.sort((one, other) => other.rank - one.rank);
  const { fontFamily, fontSize } = getComputedStyle(context.canvas.parentElement);
  context.font = `${Math.round(parseFloat(fontSize) * 0.86)}px ${fontFamily}`;
  context.textBaseline = "middle";
  const taken = [];
  const most = Math.min((width * height) / LABEL_AREA, LABELS) * zoom;
  const large = order.slice(0, 120).map(({ index }) => [places[index][0] - 4, places[index][1] - 4, places[index][0] + 4, places[index][1] + 4]);
  for (const { node, index, rank } of order.slice(0, 400)) {
    const [x, y] = places[index];
    if (x < 0 || y < 0 || x > width || y > height || (taken.length >= most && rank < 1e6)) continue;
    const text = shorten(node.title, rank >= 1e3 ? 60 : 30);
    const wide = context.measureText(text).width;
    const away = radius(node, size) + 5;
    const free = ([left, middle]) => {
      const box = [left - 3, middle - 9, left + wide + 3, middle + 9];
      return left > 4 && left + wide < width - 4 && middle > 8 && middle < height - 8 && ![...taken, ...large].some((other) => overlap(box, other));
    };
    const places4 = [[x + away, y], [x - away - wide, y], [x - wide / 2, y + away + 8], [x - wide / 2, y - away - 8]];
    const [left, middle] = places4.find(free) || (rank >= 1e6 ? placeLabel(x, y, away, wide, width) : []);
    if (left === undefined) continue;
    const box = [left - 3, middle - 9, left + wide + 3, middle + 9];
    taken.push(box);
    context.strokeStyle = colours.of("var(--panel)");
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeText(text, left, middle);
    context.fillStyle = colours.of(rank >= 1e3 ? "var(--text)" : "var(--soft)");
    context.fillText(text, left, middle);
  }
}

/** At the right of a node, at its left, or below it: wherever the whole text is seen. */
function placeLabel(x, y, away, wide, width) {
  if (x + away + wide < width - 4) return [x + away, y];
  if (x - away - wide > 4) return [x - away - wide, y];
  return [Math.max(4, Math.min(width - wide - 4, x - wide / 2)), y + away + 8];
}

function shorten(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

function overlap(one, other) {
  return one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
}

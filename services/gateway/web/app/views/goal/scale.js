// Where a time is on the timeline. Long spans in which nothing was done but waiting become short: the others are seen better.

const IDLE_LEAST = 1.5; // seconds of idle time that may be collapsed
const IDLE_SHARE = 0.08; // of the whole from which on it is
const IDLE_WIDTH = 0.035; // of the timeline for one collapsed span
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400];
const CONTAINERS = new Set(["attempt", "effect", "action"]);
const WAITS = new Set(["waiting", "approval"]);

/** The scale of rows between `start` and `end` (ms): {x(ms): 0 to 1, ticks, idle: [{from, to}], start, end}. */
export function makeScale(rows, start, end, collapse) {
  const whole = Math.max(1, end - start);
  const idle = collapse ? findIdle(rows, start, end, whole) : [];
  const busy = whole - idle.reduce((sum, each) => sum + each.to - each.from, 0);
  const share = Math.max(0.2, 1 - idle.length * IDLE_WIDTH);
  const pieces = [];
  let from = start;
  let place = 0;
  for (const each of [...idle, { from: end, to: end }]) {
    const width = busy > 0 ? ((each.from - from) / busy) * share : 0;
    pieces.push({ from, to: each.from, place, width });
    place += width;
    if (each.to > each.from) {
      const gap = (1 - share) / idle.length;
      pieces.push({ from: each.from, to: each.to, place, width: gap, idle: true });
      place += gap;
    }
    from = each.to;
  }
  const x = (time) => {
    const at = Math.min(Math.max(time, start), end);
    const piece = pieces.find((each) => at <= each.to) || pieces[pieces.length - 1];
    return piece.to > piece.from ? piece.place + ((at - piece.from) / (piece.to - piece.from)) * piece.width : piece.place;
  };
  return { x, start, end, idle: pieces.filter((each) => each.idle), ticks: makeTicks(pieces, x, start, busy) };
}

/** Spans in which nobody works: every task that has begun waits, for a process or for a person. */
function findIdle(rows, start, end, whole) {
  const waits = new Map();
  for (const row of rows) if (WAITS.has(row.kind)) waits.set(row.task_id, [...(waits.get(row.task_id) || []), [row.from, row.to]]);
  const work = rows
    .filter((row) => !WAITS.has(row.kind))
    .flatMap((row) => (row.kind === "task" ? without([row.from, row.to], waits.get(row.id) || []) : CONTAINERS.has(row.kind) ? [] : [[row.from, row.to]]))
    .sort((one, other) => one[0] - other[0]);
  const found = [];
  let reached = start;
  for (const [from, to] of [...work, [end, end]]) {
    const gap = from - reached;
    if (gap > IDLE_LEAST * 1000 && gap > whole * IDLE_SHARE) found.push({ from: reached + gap * 0.05, to: from - gap * 0.05 });
    reached = Math.max(reached, to);
  }
  return found.slice(0, 12);
}

/** What is left of a span of time without others. */
function without([from, to], others) {
  let left = [[from, to]];
  for (const [begin, end] of others) left = left.flatMap(([one, two]) => [[one, Math.min(two, begin)], [Math.max(one, end), two]].filter(([a, b]) => b > a));
  return left;
}

function makeTicks(pieces, x, start, busy) {
  const step = (STEPS.find((each) => busy / 1000 / each <= 6) || 86400 * Math.ceil(busy / 1000 / 86400 / 6)) * 1000;
  const ticks = [];
  for (const piece of pieces) {
    if (piece.idle) continue;
    for (let at = Math.ceil((piece.from - start) / step) * step; start + at <= piece.to && ticks.length < 40; at += step) {
      const place = x(start + at);
      if (!ticks.length || (place - ticks[ticks.length - 1].place > 0.06 && place < 0.92)) ticks.push({ place, label: label(at / 1000, step / 1000) });
    }
  }
  return ticks;
}

function label(seconds, step) {
  if (step >= 3600) return `${Math.round(seconds / 3600)} h`;
  if (step >= 60) return `${Math.round(seconds / 60)} min`;
  return `${seconds.toFixed(step < 0.1 ? 2 : step < 1 ? 1 : 0)} s`;
}

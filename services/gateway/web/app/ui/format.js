// Numbers and times as text: units, thousands separated, no more digits than one reads.

const COUNT = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const SHORT_CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

export function count(number) {
  return COUNT.format(number ?? 0);
}

/** "1 thing", "2 things". */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** What models cost; a dash where they have no price. */
export function costOf(amount, tokens) {
  return amount || !tokens ? dollars(amount) : "–";
}

export function dollars(amount) {
  if (!amount) return "$0";
  if (amount < 0.001) return "< $0.001";
  return `$${amount.toFixed(amount < 1 ? 3 : 2)}`;
}

export function bytes(number) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = number || 0;
  let unit = 0;
  for (; size >= 1000 && unit < units.length - 1; unit += 1) size /= 1000;
  return `${unit && size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** A span of seconds: "200 ms", "38.4 s", "5 min 12 s", "3 h 4 min", "2 days". */
export function span(seconds) {
  if (seconds < 0.001) return "0 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return plural(Math.round(seconds / 86400), "day");
}

/** "just now", "4 min ago", "in 2 h"; `now` and `time` in milliseconds. */
export function relative(time, now) {
  const seconds = Math.round((now - time) / 1000);
  const size = Math.abs(seconds);
  if (size < 5) return "just now";
  const [amount, unit] =
    size < 60 ? [size, "s"] : size < 3600 ? [Math.round(size / 60), "min"] : size < 86400 ? [Math.round(size / 3600), "h"] : [Math.round(size / 86400), "d"];
  return seconds > 0 ? `${amount} ${unit} ago` : `in ${amount} ${unit}`;
}

/** The time of day; with the day if it is not today. */
export function clock(time, { seconds = true } = {}) {
  const date = new Date(time);
  const text = (seconds ? CLOCK : SHORT_CLOCK).format(date);
  return date.toDateString() === new Date().toDateString() ? text : `${DAY.format(date)} ${text}`;
}

export function fullTime(time) {
  return FULL.format(new Date(time));
}

/** An id so short that it can be told from others: its last eight characters. */
export function shortId(id) {
  return id && id.length > 14 ? `${id.slice(0, id.indexOf("_") + 1)}…${id.slice(-8)}` : id || "";
}

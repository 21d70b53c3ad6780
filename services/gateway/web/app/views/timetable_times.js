// Times of the office's day, in the office's own time zone: a reminder for 9:00 shows 9:00 wherever one looks from.

const formats = new Map();

function format(zone, options) {
  const name = zone + JSON.stringify(options);
  if (!formats.has(name)) {
    try {
      formats.set(name, new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone || undefined }));
    } catch {
      formats.set(name, new Intl.DateTimeFormat("en-GB", options)); // the browser does not know the zone
    }
  }
  return formats.get(name);
}

export function sayHour(time, zone) {
  return format(zone, { hour: "2-digit", minute: "2-digit" }).format(new Date(time));
}

/** "Today", "Tomorrow", "Overdue", or the day with its name. */
export function sayDay(time, from, zone) {
  const days = daysBetween(from, time, zone);
  if (days < 0) return "Overdue";
  return ["Today", "Tomorrow"][days] || format(zone, { weekday: "long", day: "numeric", month: "long" }).format(new Date(time));
}

/** "now", "today 14:00", "tonight 02:00", "tomorrow 07:00", "Friday 27 November, 09:00". */
export function sayTime(time, from, zone) {
  if (time <= from) return "now";
  const hour = sayHour(time, zone);
  const at = parseInt(hour, 10);
  const days = daysBetween(from, time, zone);
  if ((days === 0 && at >= 18) || (days === 1 && at < 6 && parseInt(sayHour(from, zone), 10) >= 12)) return `tonight ${hour}`;
  return days < 2 ? `${days ? "tomorrow" : "today"} ${hour}` : `${sayDay(time, from, zone)}, ${hour}`;
}

function daysBetween(from, to, zone) {
  const day = (time) => {
    const parts = Object.fromEntries(format(zone, { year: "numeric", month: "numeric", day: "numeric" }).formatToParts(new Date(time)).map(({ type, value }) => [type, Number(value)]));
    return Date.UTC(parts.year, parts.month - 1, parts.day) / 86400000;
  };
  return day(to) - day(from);
}

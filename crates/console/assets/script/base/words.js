// --- Numbers and times as words ---

/** Where the milliseconds of a version begin: the start of 2020. */
const VERSION_EPOCH_UNIX_MS = 1577836800000;

/** A count, with separators. */
function count(number) {
  return Math.round(number).toLocaleString("en");
}

/** A count with its noun: `1 key`, `2 keys`. */
function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A text as a sentence begins. */
function capitalized(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** A number with about three digits: 1230 is `1.23 k`. */
function short(number) {
  for (const [unit, word] of [
    [1e9, " G"],
    [1e6, " M"],
    [1e3, " k"],
  ]) {
    if (number >= unit) return digits(number / unit) + word;
  }
  return digits(number);
}

/** A number with three digits that count. */
function digits(number) {
  if (number === 0) return "0";
  return number >= 100 ? String(Math.round(number)) : String(Number(number.toPrecision(3)));
}

/** A number a second: of a small one more digits would say nothing. */
function rate(number) {
  if (number > 0 && number < 0.1) return "<0.1";
  return number < 10 ? String(Number(number.toFixed(1))) : short(number);
}

/** Bytes, in the units that the configuration has. */
function bytes(number) {
  let value = number;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return `${digits(value)} ${unit}`;
    value /= 1024;
  }
  return `${digits(value)} TiB`;
}

/** A time in microseconds. */
function micros(us) {
  if (us >= 1e6) return `${digits(us / 1e6)} s`;
  return us >= 1e3 ? `${digits(us / 1e3)} ms` : `${digits(us)} µs`;
}

/** A span of time in its greatest units: two, unless fewer are asked for. */
function span(seconds, units = 2) {
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([number]) => number > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + units)
    .filter(([number]) => number > 0)
    .map(([number, unit]) => `${number} ${unit}`)
    .join(" ");
}

/** How long ago a moment was, by the node's clock. */
function ago(unixMs, nowUnixMs) {
  return unixMs ? `${span((nowUnixMs - unixMs) / 1000)} ago` : "never";
}

/** A moment, in the reader's own time. */
function moment(unixMs) {
  return new Date(unixMs).toLocaleString("sv-SE");
}

/**
 * What a version says: when it was given a timestamp, its place within that millisecond, and the
 * ID of the node that allocated it.
 *
 * @param {string} version a decimal number, too long for a JavaScript number
 */
function timestampOf(version) {
  const timestamp = BigInt(version);
  return {
    unixMs: Number(timestamp >> 20n) + VERSION_EPOCH_UNIX_MS,
    counter: Number((timestamp >> 8n) & 0xfffn),
    node: Number(timestamp & 0xffn),
  };
}

/** Names as a phrase: `a, b and c`. */
function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

// --- Keys in order, all or one level of their tree at a time ---

/** How many lines a list of keys gets at a time. */
const KEYS_MAX = 100;

/** How long the nodes may look for what matches a condition, in milliseconds. */
const FILTER_MS_MAX = 60000;

/** What ends a level of the tree. */
const LEVEL_END = 0x2f;

/**
 * The next lines of a list of keys that begin with a prefix. With levels, all keys that have the
 * same bytes up to their next slash are one line. With a condition there are no levels, and only
 * what matches it.
 *
 * @param {Uint8Array} prefix
 * @param {Uint8Array|null} start where the lines begin; null for the first ones
 * @param {boolean} hasLevels
 * @param {string} condition empty for none
 * @returns {Promise<{lines: Array<{key: Uint8Array, isGroup: boolean, expires?: string}>,
 *   next: Uint8Array|null}>} `next` is where more begin; null if there are none
 */
async function keyLines(prefix, start, hasLevels, condition) {
  const query = scanQuery(prefix, start, hasLevels && condition === "");
  const where = condition === "" ? "" : `&where=${encodeURIComponent(condition)}`;
  const found = await askLines(`/v0/entities?${query}${where}`, where ? { wait: FILTER_MS_MAX } : {});
  const lines = found.slice(0, KEYS_MAX).map(lineOf);
  const last = lines.at(-1);
  const behind = found.length > KEYS_MAX && (last.isGroup ? afterPrefix(last.key) : afterKey(last.key));
  return { lines, next: behind || null };
}

/** The query of a scan of the cluster for some lines, and one more that tells that there are more. */
function scanQuery(prefix, start, hasLevels) {
  const common = `scope=cluster&values=omit&limit=${KEYS_MAX + 1}`;
  if (hasLevels) {
    const of = prefix.length > 0 ? `&prefix=${percent(prefix)}` : "";
    return `${common}&delimiter=%2F${of}${start ? `&start=${percent(start)}` : ""}`;
  }
  const end = prefix.length > 0 ? afterPrefix(prefix) : null;
  return `${common}&start=${percent(start ?? prefix) || "%00"}${end ? `&end=${percent(end)}` : ""}`;
}

/** A line of a scan: a key, or what all keys of a group begin with. */
function lineOf(line) {
  const isGroup = line.prefix !== undefined || line.prefix_base64 !== undefined;
  const [text, base64] = isGroup ? [line.prefix, line.prefix_base64] : [line.key, line.key_base64];
  const key = base64 === undefined ? new TextEncoder().encode(text) : fromBase64(base64);
  return { key, isGroup, expires: line.expires };
}

/** The first key after this one. */
function afterKey(key) {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
}

/** The groups that a prefix lies in, from the outermost on, with itself. */
function groupsOf(prefix) {
  const ends = Array.from(prefix.keys()).filter((at) => prefix[at] === LEVEL_END && at < prefix.length - 1);
  return [...ends.map((at) => prefix.slice(0, at + 1)), ...(prefix.length > 0 ? [prefix] : [])];
}

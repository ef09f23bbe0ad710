// --- Keys in order, all or one level of their tree at a time ---

/** How many lines a list of keys gets at a time. */
const KEYS_MAX = 100;

/** What ends a level of the tree. */
const LEVEL_END = 0x2f;

/** How many scans a list takes at most for its next lines. */
const LEVEL_SCANS_MAX = 12;

/**
 * The next lines of a list of keys that begin with a prefix. With levels, keys that go on after
 * the next slash are one line, and the scan jumps over the rest of them.
 *
 * @param {Uint8Array} prefix
 * @param {Uint8Array|null} start where the lines begin; null for the first ones
 * @param {boolean} hasLevels
 * @returns {Promise<{lines: Array<{key: Uint8Array, isGroup: boolean, expires?: string,
 *   count?: number, isMore?: boolean}>, next: Uint8Array|null}>} `next` is where more may begin
 */
async function keyLines(prefix, start, hasLevels) {
  const lines = [];
  let from = start ?? prefix;
  for (let scans = 0; scans < LEVEL_SCANS_MAX; scans += 1) {
    const found = await askLines(`/v0/entities?${scanQuery(prefix, from)}`);
    for (const line of found) {
      const key = keyOf(line);
      const slash = hasLevels ? key.indexOf(LEVEL_END, prefix.length) : -1;
      const group = slash < 0 ? null : key.slice(0, slash + 1);
      const last = lines.at(-1);
      if (group && last?.isGroup && isSame(last.key, group)) last.count += 1;
      else if (lines.length === KEYS_MAX) return { lines, next: key };
      else lines.push(group ? { key: group, isGroup: true, count: 1 } : { key, isGroup: false, expires: line.expires });
    }
    if (found.length < KEYS_MAX) return { lines, next: null };
    const last = lines.at(-1);
    from = last.isGroup ? afterPrefix(last.key) : afterKey(keyOf(found.at(-1)));
    if (last.isGroup) last.isMore = true;
    if (from === null) return { lines, next: null };
  }
  return { lines, next: from };
}

/** The query of a scan of the cluster: keys that begin with a prefix, from `start` on. */
function scanQuery(prefix, start) {
  const end = prefix.length > 0 ? afterPrefix(prefix) : null;
  return `scope=cluster&values=omit&limit=${KEYS_MAX}&start=${percent(start) || "%00"}${end ? `&end=${percent(end)}` : ""}`;
}

/** The first key after this one. */
function afterKey(key) {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
}

/** Whether two keys are the same. */
function isSame(one, other) {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}

/** The groups that a prefix lies in, from the outermost on, with itself. */
function groupsOf(prefix) {
  const ends = Array.from(prefix.keys()).filter((at) => prefix[at] === LEVEL_END && at < prefix.length - 1);
  return [...ends.map((at) => prefix.slice(0, at + 1)), ...(prefix.length > 0 ? [prefix] : [])];
}

/** The key of a line of a scan. */
function keyOf(line) {
  return line.key_base64 === undefined ? new TextEncoder().encode(line.key) : fromBase64(line.key_base64);
}

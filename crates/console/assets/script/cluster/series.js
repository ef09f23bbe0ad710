// --- What the nodes did lately, for cards and charts ---

/** How much the console keeps of what each node did, in milliseconds. */
const KEPT_MS = 3600000;

/** The windows that charts show, and what a point of each sums up. */
const WINDOWS = [
  { word: "5 min", minutes: 5, stepMs: 10000 },
  { word: "20 min", minutes: 20, stepMs: 30000 },
  { word: "1 h", minutes: 60, stepMs: 60000 },
];

/**
 * What the nodes did: samples by node, each with the time at which it ended by this browser's
 * clock, so that nodes whose clocks differ share an axis.
 */
function seriesOfNodes() {
  /** By node: samples by the time that the node gave them, and the one that is not complete. */
  const nodes = new Map();
  const series = {
    /** The upper bounds of the buckets of latencies, in microseconds. */
    boundsUs: [],
    /** Keeps what a node has told: its samples, and the one that runs. */
    keep(name, { bounds_us, samples, running }) {
      if (bounds_us) series.boundsUs = bounds_us;
      const now = Date.now();
      const at = (sample) => now - (running.unix_ms - sample.unix_ms);
      const known = nodes.get(name)?.ended ?? new Map();
      for (const sample of samples) {
        if (!known.has(sample.unix_ms)) known.set(sample.unix_ms, { ...sample, at: at(sample) });
      }
      for (const [told, sample] of known) if (sample.at < now - KEPT_MS) known.delete(told);
      nodes.set(name, { ended: known, running: { ...running, at: now } });
    },
    /** When the last complete sample of a node ended by its own clock, if there is one. */
    lastOf: (name) => Math.max(0, ...(nodes.get(name)?.ended.keys() ?? [])),
    /** All samples of a node. A rate over less than a second would be chance. */
    of(name) {
      const { ended, running } = nodes.get(name) ?? { ended: new Map() };
      return [...ended.values(), ...(running?.span_ms >= 1000 ? [running] : [])];
    },
    /** How far back anything is known, in milliseconds. */
    lengthMs() {
      const begins = Array.from(nodes.values()).flatMap(({ ended }) =>
        Array.from(ended.values(), (sample) => sample.at - sample.span_ms),
      );
      return Date.now() - Math.min(Date.now(), ...begins);
    },
    names: () => Array.from(nodes.keys()),
    clear: () => nodes.clear(),
  };
  return series;
}

/** The sums of nothing. */
function noSums() {
  return { seconds: 0, reads: [], writes: [], batch_operations: 0, refused: 0, failed: 0 };
}

/** Adds a share of a sample to sums. */
function addShare(sums, sample, share) {
  sums.seconds += (sample.span_ms / 1000) * share;
  for (const kind of ["reads", "writes"])
    sample[kind].forEach((number, bucket) => (sums[kind][bucket] = (sums[kind][bucket] ?? 0) + number * share));
  for (const kind of ["batch_operations", "refused", "failed"]) sums[kind] += sample[kind] * share;
}

/**
 * What nodes did in a window, in columns of equal length: the sums of each node. A sample that
 * lies in two columns counts in each by its share, so that no column is empty by chance.
 *
 * @returns {Array<{end: number, nodes: Map<string, Object>}>} the oldest first
 */
function columnsOf(series, names, { minutes, stepMs }) {
  const number = (minutes * 60000) / stepMs;
  const first = Math.ceil(Date.now() / stepMs) - number;
  const columns = Array.from({ length: number }, (_, index) => ({
    end: (first + index + 1) * stepMs,
    nodes: new Map(),
  }));
  for (const name of names) {
    for (const sample of series.of(name)) {
      const begin = sample.at - sample.span_ms;
      for (let step = Math.floor(begin / stepMs); step * stepMs < sample.at; step += 1) {
        const column = columns[step - first];
        if (!column) continue;
        const overlap = Math.min(sample.at, (step + 1) * stepMs) - Math.max(begin, step * stepMs);
        if (!column.nodes.has(name)) column.nodes.set(name, noSums());
        addShare(column.nodes.get(name), sample, overlap / sample.span_ms);
      }
    }
  }
  return columns;
}

/** How many requests these counts are. */
function totalOf(counts) {
  return counts.reduce((sum, number) => sum + (number ?? 0), 0);
}

/** The requests and the operations of sums. */
function requestsOf(sums) {
  return totalOf(sums.reads) + totalOf(sums.writes) + sums.batch_operations;
}

/** How many a second nodes did in a column: the sum of their rates; null if nothing is known. */
function rateOf({ nodes }, count, name) {
  const told = Array.from(nodes).filter(([node, { seconds }]) => seconds >= 0.5 && (!name || node === name));
  if (told.length === 0) return null;
  return told.reduce((sum, [, sums]) => sum + count(sums) / sums.seconds, 0);
}

/** How many a second they did in all these columns: of the time of which something is known. */
function meanRateOf(columns, count, name) {
  const rates = columns.map((column) => rateOf(column, count, name)).filter((rate) => rate !== null);
  return rates.length === 0 ? null : rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
}

/** The histogram of a kind of request in columns. */
function countsOf(columns, kinds) {
  return sumCounts(
    columns.flatMap(({ nodes }) => Array.from(nodes.values()).flatMap((sums) => kinds.map((kind) => sums[kind]))),
  );
}

/** The counts of several histograms together, bucket by bucket. */
function sumCounts(lists) {
  const sums = [];
  for (const list of lists)
    list.forEach((number, bucket) => (sums[bucket] = (sums[bucket] ?? 0) + (number ?? 0)));
  return Array.from(sums, (number) => number ?? 0);
}

/**
 * The time that a share of the requests did not exceed, as if those of a bucket were
 * spread evenly over it.
 *
 * @param {number[]} counts how many requests each bucket has; the last may be left out
 * @param {number[]} boundsUs the upper bounds of the buckets
 * @param {number} share for example 0.99
 * @returns {number|null} microseconds; null without requests
 */
function quantile(counts, boundsUs, share) {
  const rank = totalOf(counts) * share;
  let below = 0;
  for (const [bucket, number] of counts.entries()) {
    if (number > 0 && below + number >= rank * (1 - 1e-9)) {
      const lower = boundsUs[bucket - 1] ?? 0;
      const upper = boundsUs[bucket] ?? 2 * lower;
      return lower + (upper - lower) * Math.min(1, (rank - below) / number);
    }
    below += number;
  }
  return null;
}

// Scans that continue behind their last key when a stream breaks.

import { AttemptError, errorOf, versionOf } from "./errors.js";
import { failureOf, foreign, hasType, objectIn } from "./answers.js";
import { KEY_BYTES_MAX, bytesFrom, bytesIn, escape, instantOf, keyOf } from "./model.js";
import type { Bytes, Entity, Line } from "./model.js";
import type { Caller } from "./caller.js";
import type { Node, Nodes } from "./nodes.js";
import type { Exchange } from "./transport.js";

export const LINES_TYPE = "application/x-ndjson";
const LINE_BYTES_MAX = 128 << 20;

/** Which entities: from `start` to below `end`, or those with a prefix; of the cluster or of the first node. */
export interface RangeOptions {
  start?: Bytes;
  end?: Bytes;
  prefix?: Bytes;
  scope?: "cluster" | "node";
  /** A condition, which the nodes evaluate: only entities that match it. */
  where?: string;
}

/** The entities that a scan covers. */
export class Range {
  start: Buffer;
  readonly end: Buffer | undefined;
  readonly isOfCluster: boolean;
  private readonly where: string | undefined;

  constructor({ start, end, prefix, scope = "cluster", where }: RangeOptions) {
    if (prefix !== undefined && (start !== undefined || end !== undefined))
      throw new TypeError("prefix excludes start and end");
    if (scope !== "cluster" && scope !== "node") throw new TypeError(`scope is cluster or node, not ${scope}`);
    this.isOfCluster = scope === "cluster";
    this.where = where;
    this.start = prefix === undefined ? keyOf(start ?? "\0", KEY_BYTES_MAX + 1) : keyOf(prefix);
    if (prefix !== undefined) this.end = endOfPrefix(this.start);
    else this.end = end === undefined ? undefined : keyOf(end, KEY_BYTES_MAX + 1);
  }

  /** Whether it holds no key, whatever the nodes keep. */
  isEmpty(): boolean {
    return this.end !== undefined && Buffer.compare(this.end, this.start) <= 0;
  }

  /** The nodes that may be asked: another node keeps other keys. */
  nodesOf(nodes: Nodes): Nodes {
    return this.isOfCluster ? nodes : nodes.first();
  }

  /** Its parameters; the pair applies to the whole cluster only. */
  query(pair: readonly string[]): string[] {
    const end = this.end === undefined ? [] : [`end=${escape(this.end)}`];
    const where = this.where === undefined ? [] : [`where=${escape(Buffer.from(this.where))}`];
    return [`start=${escape(this.start)}`, ...end, ...where, ...(this.isOfCluster ? ["scope=cluster", ...pair] : [])];
  }

  /** Its parameters, in a body of JSON. */
  body({ ack, from }: { ack?: number | undefined; from?: number | undefined }): Line {
    return {
      ...bytesIn("start", this.start),
      ...(this.end === undefined ? {} : bytesIn("end", this.end)),
      where: this.where,
      ...(this.isOfCluster ? { scope: "cluster", ack, from } : {}),
    };
  }
}

/** The first key behind all that have the prefix; undefined if there is no greater key. */
export function endOfPrefix(prefix: Buffer): Buffer | undefined {
  let kept = prefix.length;
  while (kept > 0 && prefix[kept - 1] === 0xff) kept -= 1;
  if (kept === 0) return undefined;
  const end = Buffer.from(prefix.subarray(0, kept));
  end[kept - 1]! += 1;
  return end;
}

/** What a scan needs beside its keys. */
export interface ScanSettings {
  limit: number | undefined;
  values: boolean;
  pair: readonly string[];
  silenceMs: number;
  fields: Record<string, string>;
}

/** The entities of a scan. */
export async function* scan(caller: Caller, keys: Range, settings: ScanSettings): AsyncGenerator<Entity, void, undefined> {
  const nodes = keys.nodesOf(caller.nodes);
  let { limit } = settings;
  let breaks = 0;
  while (!keys.isEmpty() && limit !== 0) {
    const stream = await caller.ask((node) => open(caller, node, keys, limit, settings), true, Infinity, nodes);
    try {
      for await (const line of linesOf(stream)) {
        const entity = entityOf(stream.node, line, keys);
        keys.start = Buffer.concat([entity.key, Buffer.of(0)]);
        if (limit !== undefined) limit -= 1;
        breaks = 0;
        yield entity;
      }
      return;
    } catch (error) {
      if (!(error instanceof AttemptError)) throw error;
      stream.node.hasFailed(error);
      breaks += 1;
      if (breaks >= caller.rounds * nodes.all.length || error.failure.outcome === "refused")
        throw errorOf(error, [error], true);
    } finally {
      stream.end();
    }
  }
}

async function open(
  caller: Caller,
  node: Node,
  keys: Range,
  limit: number | undefined,
  { values, pair, silenceMs, fields }: ScanSettings,
): Promise<Exchange> {
  const query = keys.query(pair);
  if (!values) query.push("values=omit");
  if (limit !== undefined) query.push(`limit=${limit}`);
  const request = {
    method: "GET",
    target: `/v0/entities?${query.join("&")}`,
    isRead: true,
    fields: { ...fields, Accept: LINES_TYPE, TE: "trailers" },
  };
  const stream = await caller.send(node, request, { ms: silenceMs, isSilence: true }, silenceMs);
  try {
    if (stream.status !== 200) throw failureOf(node.url, stream, await stream.read());
    if (!hasType(stream, LINES_TYPE)) throw foreign(node.url, stream);
    return stream;
  } catch (error) {
    stream.end();
    throw error;
  }
}

/** The lines of an answer. An end that is not whole is an error. */
async function* linesOf(stream: Exchange): AsyncGenerator<string, void, undefined> {
  let pieces: Buffer[] = [];
  let size = 0;
  let count = 0;
  for await (const piece of stream.pieces()) {
    let done = 0;
    for (let end = piece.indexOf(10); end >= 0; end = piece.indexOf(10, done)) {
      const line = Buffer.concat([...pieces, piece.subarray(done, end)]).toString();
      [pieces, size, done] = [[], 0, end + 1];
      count += 1;
      yield line;
    }
    const rest = piece.subarray(done);
    size += rest.length;
    if (rest.length > 0) pieces.push(rest);
    if (size > LINE_BYTES_MAX) throw damaged(stream.node, "a line is too long");
  }
  const sent = stream.trailer("kvorum-count");
  if (size > 0 || (sent !== undefined && sent !== String(count)))
    throw damaged(stream.node, `${count} entities arrived, and ${sent} were sent`);
}

function entityOf(node: Node, line: string, keys: Range): Entity {
  const parsed = objectIn(line) ?? {};
  const key = bytesFrom(parsed, "key");
  const version = versionOf(parsed["version"]);
  if (key === undefined || version === undefined || Buffer.compare(key, keys.start) < 0)
    throw damaged(node, "the scan has a line that is damaged");
  const value = bytesFrom(parsed, "value") ?? Buffer.alloc(0);
  return { key, value, version, expires: instantOf(parsed["expires"]), notModified: false };
}

function damaged(node: Node, text: string): AttemptError {
  return new AttemptError({ node: node.url, text, outcome: "refused" });
}

// The client that programs use.

import { aggregatesOf, questionOf } from "./aggregate.js";
import type { AggregateFunction, Aggregates } from "./aggregate.js";
import { AttemptError, errorOf, problemType, versionOf } from "./errors.js";
import type { Problem } from "./errors.js";
import { failureOf, failureOfProblem, foreign, hasType, isNoSuchEntity, objectIn } from "./answers.js";
import { Caller } from "./caller.js";
import type { ClientOptions } from "./caller.js";
import { bytesFrom, bytesOf, escape, etagOf, excludeBoth, instantOf, keyOf, secondsOf } from "./model.js";
import type { Bytes, Entity, Match, Operation, Replica, Result, Written } from "./model.js";
import { LINES_TYPE, Range, scan } from "./scan.js";
import type { RangeOptions } from "./scan.js";
import type { Node } from "./nodes.js";
import type { Exchange, Request } from "./transport.js";

const BATCH_BYTES_MAX = 16 << 20;

/** What every operation takes. */
export interface CallOptions {
  /** In milliseconds, in place of the client's `timeout`, or `scanTimeout`. */
  timeout?: number;
  /** The header of W3C Trace Context. */
  traceparent?: string;
}

/** What operations on data take. */
export interface PairOptions extends CallOptions {
  /** How many replicas must answer. */
  ack?: number;
  /** How many replicas the key has. The cluster's pair applies if both are left out. */
  from?: number;
}

export interface GetOptions extends PairOptions {
  /** Leaves the value out if it still has this etag; `notModified` says so. */
  ifNoneMatch?: string;
}

export interface DeleteOptions extends PairOptions {
  /** Only if the key has the value with this etag or version; any for `*`. */
  ifMatch?: Match;
}

export interface TouchOptions extends DeleteOptions {
  /** The seconds after which the value expires. */
  ttl?: number;
}

export interface PutOptions extends TouchOptions {
  /** Only if the key has no value. */
  ifAbsent?: boolean;
}

export interface CountOptions extends PairOptions, RangeOptions {}

export interface AggregateOptions extends CountOptions {
  /** Expressions whose values make the groups. Without any there is one group. */
  by?: readonly string[];
}

export interface ScanOptions extends CountOptions {
  limit?: number;
  /** False: only keys and versions. */
  values?: boolean;
}

/** A client of the nodes of a cluster. All operations reject with a KvorumError. */
export class Client {
  private readonly caller: Caller;

  /** A client of these nodes. Nothing is sent yet. */
  constructor(options: ClientOptions) {
    this.caller = new Caller(options);
  }

  /** The entity of a key; undefined if it has no value. */
  get(key: Bytes, options: GetOptions = {}): Promise<Entity | undefined> {
    return this.read("GET", key, options);
  }

  /** The entity of a key without its value; undefined if the key has no value. */
  head(key: Bytes, options: PairOptions = {}): Promise<Entity | undefined> {
    return this.read("HEAD", key, options);
  }

  /** Writes a value. */
  async put(key: Bytes, value: Bytes, options: PutOptions = {}): Promise<Written> {
    if (options.ifAbsent) excludeBoth(options.ifMatch);
    const fields: Record<string, string> = options.ifAbsent ? { "If-None-Match": "*" } : {};
    return this.write("PUT", key, bytesOf(value), ttlOf(options), fields, options);
  }

  /** Keeps the value of a key, which expires `ttl` seconds from now, or never. ConflictError without a value. */
  async touch(key: Bytes, options: TouchOptions = {}): Promise<Written> {
    return this.write("PUT", key, Buffer.alloc(0), ["touch=true", ...ttlOf(options)], {}, options);
  }

  /** Deletes a key, which need not have a value. */
  async delete(key: Bytes, options: DeleteOptions = {}): Promise<Written> {
    return this.write("DELETE", key, undefined, [], {}, options);
  }

  /** Does many operations in one request, without a transaction: a result for each one, in their order. */
  async batch(operations: readonly Operation[], options: PairOptions = {}): Promise<Result[]> {
    if (operations.length === 0) return [];
    const body = Buffer.from(operations.map(({ line }) => `${JSON.stringify(line)}\n`).join(""));
    if (body.length > BATCH_BYTES_MAX)
      throw new RangeError(`a batch has at most ${BATCH_BYTES_MAX} bytes, not ${body.length}`);
    const isRead = operations.every((operation) => operation.isRead);
    const request = this.request("POST", "/v0/batch", pairOf(options), options);
    Object.assign(request, { isRead, body });
    request.fields["Content-Type"] = LINES_TYPE;
    const attempt = async (node: Node, leftMs: number) => {
      const exchange = await this.caller.send(node, request, { ms: leftMs, isSilence: false }, leftMs);
      try {
        return await results(exchange, operations, isRead);
      } finally {
        exchange.end();
      }
    };
    return this.caller.ask(attempt, isRead, this.timeout(options));
  }

  /** The entities of a range, in the order of their keys. It goes on at another node if one fails. */
  scan(options: ScanOptions = {}): AsyncGenerator<Entity, void, undefined> {
    const { limit, values = true } = options;
    if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 1))
      throw new RangeError(`limit is a whole number from 1, not ${limit}`);
    const silenceMs = this.timeout(options, this.caller.scanTimeout);
    const fields = this.caller.trace(options.traceparent);
    return scan(this.caller, new Range(options), { limit, values, pair: pairOf(options), silenceMs, fields });
  }

  /** How many entities a scan would have. */
  async count(options: CountOptions = {}): Promise<number> {
    const keys = new Range(options);
    if (keys.isEmpty()) return 0;
    const ms = this.timeout(options, this.caller.scanTimeout);
    const request = this.request("GET", "/v0/entities", [...keys.query(pairOf(options)), "count=only"], options);
    const attempt = async (node: Node) => {
      const { head, body } = await this.caller.fetch(node, request, ms, [200], { ms, isSilence: true });
      return Number(pageOf(node, head, body)["count"]);
    };
    return this.caller.ask(attempt, true, Infinity, keys.nodesOf(this.caller.nodes));
  }

  /** Has the nodes count the entities that a scan would have, and compute functions of them, in groups. */
  async aggregate(functions: readonly AggregateFunction[], options: AggregateOptions = {}): Promise<Aggregates> {
    const keys = new Range(options);
    const ms = this.timeout(options, this.caller.scanTimeout);
    const request = this.request("POST", "/v0/aggregate", [], options);
    request.body = questionOf(keys, functions, options.by ?? [], options);
    request.fields["Content-Type"] = "application/json";
    const attempt = async (node: Node) => {
      const { head, body } = await this.caller.fetch(node, request, ms, [200], { ms, isSilence: true });
      const found = hasType(head, "application/json") ? aggregatesOf(body.toString()) : undefined;
      if (found === undefined) throw foreign(node.url, head);
      return found;
    };
    return this.caller.ask(attempt, true, Infinity, keys.nodesOf(this.caller.nodes));
  }

  /** All nodes, in the order in which they are replicas of the key. */
  async replicas(key: Bytes, options: CallOptions = {}): Promise<Replica[]> {
    const page = await this.page("/v0/replicas", [`id=${escape(keyOf(key))}`], options);
    return (page["replicas"] as Replica[]).map(({ name, url }) => ({ name, url }));
  }

  /** What the node that answers says about itself and the cluster. */
  status(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.page("/v0/status", [], options);
  }

  /** Closes all connections. */
  close(): void {
    this.caller.close();
  }

  private async read(method: string, key: Bytes, options: GetOptions): Promise<Entity | undefined> {
    const bytes = keyOf(key);
    const request = this.request(method, "/v0/entity", [`id=${escape(bytes)}`, ...pairOf(options)], options);
    if (options.ifNoneMatch !== undefined) request.fields["If-None-Match"] = etagOf(options.ifNoneMatch);
    const attempt = async (node: Node, leftMs: number): Promise<Entity | undefined> => {
      try {
        const { head, body } = await this.caller.fetch(node, request, leftMs, [200, 304]);
        const { version, etag } = writtenOf(node, head);
        const expires = instantOf(head.field("kvorum-expires"));
        return { key: bytes, value: body, version, etag, expires, notModified: head.status === 304 };
      } catch (error) {
        if (error instanceof AttemptError && isNoSuchEntity(error.failure)) return undefined;
        throw error;
      }
    };
    return this.caller.ask(attempt, true, this.timeout(options));
  }

  private write(
    method: string,
    key: Bytes,
    body: Buffer | undefined,
    query: string[],
    fields: Record<string, string>,
    options: DeleteOptions,
  ): Promise<Written> {
    const all = [`id=${escape(keyOf(key))}`, ...query, ...pairOf(options)];
    const request = this.request(method, "/v0/entity", all, options);
    Object.assign(request.fields, fields);
    if (options.ifMatch !== undefined) request.fields["If-Match"] = etagOf(options.ifMatch);
    request.isRead = false;
    if (body) request.body = body;
    const success = method === "DELETE" ? [202] : [201];
    const attempt = async (node: Node, leftMs: number) => {
      const { head } = await this.caller.fetch(node, request, leftMs, success);
      return writtenOf(node, head);
    };
    return this.caller.ask(attempt, false, this.timeout(options));
  }

  private page(path: string, query: string[], options: CallOptions): Promise<Record<string, unknown>> {
    const request = this.request("GET", path, query, options);
    const attempt = async (node: Node, leftMs: number) => {
      const { head, body } = await this.caller.fetch(node, request, leftMs, [200]);
      return pageOf(node, head, body);
    };
    return this.caller.ask(attempt, true, this.timeout(options));
  }

  private request(method: string, path: string, query: string[], { traceparent }: CallOptions): Request {
    const target = query.length === 0 ? path : `${path}?${query.join("&")}`;
    return { method, target, isRead: true, fields: this.caller.trace(traceparent) };
  }

  private timeout({ timeout }: CallOptions, otherwise = this.caller.timeout): number {
    if (timeout !== undefined && !(timeout > 0)) throw new RangeError("a timeout is more than 0 milliseconds");
    return timeout ?? otherwise;
  }
}

function pairOf({ ack, from }: PairOptions): string[] {
  return [...(ack === undefined ? [] : [`ack=${ack}`]), ...(from === undefined ? [] : [`from=${from}`])];
}

function ttlOf({ ttl }: TouchOptions): string[] {
  return ttl === undefined ? [] : [`ttl=${secondsOf(ttl)}`];
}

function writtenOf(node: Node, head: Exchange): Written {
  const version = versionOf(head.field("kvorum-version"));
  if (version === undefined) throw foreign(node.url, head);
  return { version, etag: head.field("etag") };
}

function pageOf(node: Node, head: Exchange, body: Buffer): Record<string, unknown> {
  const page = hasType(head, "application/json") ? objectIn(body.toString()) : undefined;
  if (page === undefined) throw foreign(node.url, head);
  return page;
}

/** The results of a batch. If the answer ends early, the operations without one have an error. */
async function results(exchange: Exchange, operations: readonly Operation[], isRead: boolean): Promise<Result[]> {
  const node = exchange.node.url;
  if (exchange.status !== 200 || !hasType(exchange, LINES_TYPE)) throw failureOf(node, exchange, await exchange.read());
  const pieces: Buffer[] = [];
  let broken = new AttemptError({ node, text: "the answer has too few lines", outcome: "unknown" });
  try {
    for await (const piece of exchange.pieces()) pieces.push(piece);
  } catch (error) {
    if (isRead || !(error instanceof AttemptError)) throw error;
    broken = error;
    exchange.node.hasFailed(error);
  }
  const lines = Buffer.concat(pieces).toString().split("\n").slice(0, -1);
  return operations.map((operation, place) => {
    const line = lines[place];
    if (line === undefined) return { status: 0, error: errorOf(broken, [broken], operation.isRead) };
    return resultOf(node, objectIn(line) ?? {}, operation.isRead);
  });
}

function resultOf(node: string, line: Record<string, unknown>, isRead: boolean): Result {
  const status = Number(line["status"]);
  const version = versionOf(line["version"]);
  const problem = line["problem"] as Problem | undefined;
  if (problem === undefined)
    return { status, version, value: bytesFrom(line, "value"), expires: instantOf(line["expires"]) };
  if (status === 404 && problemType(problem) === "no-such-entity") return { status, version };
  const failed = failureOfProblem(node, status, problem, { version });
  return { status, version, error: errorOf(failed, [failed], isRead) };
}

// Sends requests to one node after the other, in a few rounds.

import { readFileSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { AttemptError, UnavailableError, errorOf } from "./errors.js";
import { failureOf } from "./answers.js";
import { Node, Nodes } from "./nodes.js";
import { Transport } from "./transport.js";
import type { Exchange, Limit, Request } from "./transport.js";

const PAUSE_FIRST_MS = 100;
const PAUSE_MS_MAX = 2_000;

/** The options of a client. Times are in milliseconds. */
export interface ClientOptions {
  /** The nodes, of which the first is asked first. */
  urls: readonly string[];
  token?: string;
  /** A file with the token, which is read again when it changes. */
  tokenFile?: string;
  /** A PEM file: only these authorities are trusted. */
  caFile?: string;
  /** For a connection, its TLS handshake included. 1,000 by default. */
  connectTimeout?: number;
  /** For one whole answer of one node. 5,000 by default. */
  attemptTimeout?: number;
  /** For a whole operation, with all attempts and waits. 15,000 by default. */
  timeout?: number;
  /** How long no byte of a scan or a count may come. 60,000 by default. */
  scanTimeout?: number;
  /** How many times all nodes are asked at most. 4 by default. */
  rounds?: number;
  /** How many requests run at a time; more wait. 64 by default. */
  connections?: number;
  /** Called once for each operation: the header `traceparent`, or nothing. */
  traceparent?: () => string | undefined;
}

/** Asks nodes until one serves a request. */
export class Caller {
  readonly nodes: Nodes;
  readonly timeout: number;
  readonly scanTimeout: number;
  readonly rounds: number;
  private readonly attemptTimeout: number;
  private readonly transport: Transport;
  private readonly tokens: Tokens;

  constructor(private readonly options: ClientOptions) {
    if (!Array.isArray(options.urls) || options.urls.length === 0)
      throw new TypeError("give the URL of at least one node in `urls`");
    this.nodes = new Nodes(options.urls.map((url: string) => new Node(url)));
    const atLeastOne = (name: string, given: number | undefined, otherwise: number): number => {
      const number = given ?? otherwise;
      if (!(number >= 1)) throw new RangeError(`${name} is at least 1, not ${number}`);
      return number;
    };
    this.timeout = atLeastOne("timeout", options.timeout, 15_000);
    this.scanTimeout = atLeastOne("scanTimeout", options.scanTimeout, 60_000);
    this.attemptTimeout = atLeastOne("attemptTimeout", options.attemptTimeout, 5_000);
    this.rounds = atLeastOne("rounds", options.rounds, 4);
    const connectTimeout = atLeastOne("connectTimeout", options.connectTimeout, 1_000);
    const connections = atLeastOne("connections", options.connections, 64);
    const ca = options.caFile === undefined ? undefined : readFileSync(options.caFile);
    this.transport = new Transport(connections, ca, connectTimeout);
    this.tokens = new Tokens(options.token, options.tokenFile);
  }

  /** The field that names the trace of an operation. */
  trace(given: string | undefined): Record<string, string> {
    const traceparent = given ?? this.options.traceparent?.();
    if (traceparent === undefined) return {};
    if (!/^[!-~]+$/.test(traceparent)) throw new TypeError(`not a traceparent: ${traceparent}`);
    return { traceparent };
  }

  /**
   * Asks one node after the other, in rounds. An attempt gets the milliseconds that are left;
   * `ms` is infinite where only the rounds bound it.
   */
  async ask<T>(
    attempt: (node: Node, leftMs: number) => Promise<T>,
    isRead: boolean,
    ms: number,
    nodes: Nodes = this.nodes,
  ): Promise<T> {
    const end = performance.now() + ms;
    const met: AttemptError[] = [];
    for (let round = 0; ; round++) {
      const before = met.length;
      for (const node of nodes.order()) {
        const left = end - performance.now();
        if (left <= 0) throw over(met, ms);
        try {
          const done = await attempt(node, left);
          nodes.prefer(node);
          return done;
        } catch (error) {
          if (!(error instanceof AttemptError)) throw error;
          node.hasFailed(error);
          met.push(error);
          const { outcome } = error.failure;
          if (outcome !== "not applied" && !(isRead && outcome === "unknown")) throw errorOf(error, met, isRead);
        }
      }
      const inRound = met.slice(before);
      if (round + 1 >= this.rounds || inRound.every(({ failure }) => failure.isLasting)) throw over(met, ms);
      const wait = pauseMs(round, inRound);
      if (performance.now() + wait >= end) throw over(met, ms);
      await sleep(wait);
    }
  }

  /** Sends a request to one node. The caller reads its answer and ends the exchange. */
  send(node: Node, request: Request, limit: Limit, leftMs: number): Promise<Exchange> {
    const token = this.tokens.get();
    const fields = token === undefined ? request.fields : { ...request.fields, Authorization: `Bearer ${token}` };
    return this.transport.send(node, { ...request, fields }, limit, leftMs);
  }

  /** Sends a request to one node. The head and the whole body, if it has one of these statuses. */
  async fetch(
    node: Node,
    request: Request,
    leftMs: number,
    success: readonly number[],
    limit: Limit = { ms: Math.min(leftMs, this.attemptTimeout), isSilence: false },
  ): Promise<{ head: Exchange; body: Buffer }> {
    const head = await this.send(node, request, limit, leftMs);
    try {
      const body = await head.read();
      if (!success.includes(head.status)) throw failureOf(node.url, head, body);
      return { head, body };
    } finally {
      head.end();
    }
  }

  close(): void {
    this.transport.close();
  }
}

/** The token of a client: given, or in a file that is read again when it changes. */
class Tokens {
  private modified: number | undefined;

  constructor(private token: string | undefined, private readonly file: string | undefined) {
    if (token !== undefined && file !== undefined) throw new TypeError("token and tokenFile exclude each other");
    checkToken(token);
  }

  get(): string | undefined {
    if (this.file === undefined) return this.token;
    const { mtimeMs } = statSync(this.file);
    if (mtimeMs !== this.modified) {
      this.token = readFileSync(this.file, "ascii").trim();
      checkToken(this.token);
      this.modified = mtimeMs;
    }
    return this.token;
  }
}

function checkToken(token: string | undefined): void {
  if (token !== undefined && !/^[!-~]+$/.test(token)) throw new TypeError("not a token");
}

/** The error when no attempt is left. Every attempt before did nothing, or was one of a read. */
function over(met: readonly AttemptError[], ms: number): Error {
  const last = met.at(-1);
  if (last) return errorOf(last, met, true);
  return new UnavailableError(`the time was over before a node was asked: ${ms} ms`, undefined, undefined, []);
}

/** How long to wait after a round (from 0) in which all nodes failed. */
export function pauseMs(round: number, errors: readonly AttemptError[]): number {
  const wait = Math.min(PAUSE_FIRST_MS * 2 ** round, PAUSE_MS_MAX) * (0.5 + Math.random() / 2);
  const asked = errors.map((error) => error.retryAfter).filter((said): said is number => said !== undefined);
  const isAll = asked.length === errors.length;
  return Math.min(isAll ? Math.max(wait, Math.min(...asked)) : wait, PAUSE_MS_MAX);
}

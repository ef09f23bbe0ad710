// One request to one node over kept connections. `fetch` shows neither trailers nor whether a
// connection was made, and takes no file of an authority without a package, so this is `node:http`.

import * as http from "node:http";
import * as https from "node:https";
import { AttemptError } from "./errors.js";
import type { Failure } from "./errors.js";
import type { Head } from "./answers.js";
import type { Node } from "./nodes.js";

const IDLE_MS_MAX = 20_000;
const HEAD_BYTES_MAX = 64 << 10;
const BODY_BYTES_MAX = 2 ** 30;
const TRUST_CODES = /^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT_)/;

/** A request that can be sent again. `isRead`: it changes nothing. */
export interface Request {
  method: string;
  target: string;
  isRead: boolean;
  fields: Record<string, string>;
  body?: Buffer;
}

/** How long an attempt may take, or how long no byte may come, in milliseconds. */
export interface Limit {
  ms: number;
  isSilence: boolean;
}

/** The kept connections of a client. */
export class Transport {
  private readonly plain: http.Agent;
  private readonly secure: https.Agent;
  private readonly waiting: (() => void)[] = [];
  private free: number;

  constructor(connections: number, ca: Buffer | undefined, private readonly connectMs: number) {
    const options = { keepAlive: true, maxFreeSockets: connections, timeout: IDLE_MS_MAX, noDelay: true };
    this.free = connections;
    this.plain = new http.Agent(options);
    this.secure = new https.Agent({ ...options, ...(ca ? { ca } : {}) });
  }

  /** Sends a request and waits for the head of its answer, at most `leftMs` for a permit. */
  async send(node: Node, request: Request, limit: Limit, leftMs: number): Promise<Exchange> {
    const begun = performance.now();
    const isPermitted = await this.acquire(leftMs);
    // The wait is part of the time.
    const waited = performance.now() - begun;
    const ms = limit.isSilence ? limit.ms : limit.ms - waited;
    if (isPermitted && ms <= 0) this.release();
    if (!isPermitted || ms <= 0) {
      const text = "as many requests as `connections` allows were running all the time";
      throw new AttemptError({ node: node.url, text, outcome: "not applied" });
    }
    const exchange = new Exchange(node, { ...limit, ms }, () => this.release());
    const isOfBody = request.body ? { "Content-Length": request.body.length } : {};
    const sent = (node.isSecure ? https : http).request({
      agent: node.isSecure ? this.secure : this.plain,
      host: node.host,
      port: node.port,
      method: request.method,
      path: request.target,
      headers: { ...request.fields, ...isOfBody },
      maxHeaderSize: HEAD_BYTES_MAX,
    });
    await exchange.start(sent, request.body, Math.min(this.connectMs, ms), node.isSecure);
    return exchange;
  }

  close(): void {
    this.plain.destroy();
    this.secure.destroy();
  }

  private acquire(ms: number): Promise<boolean> {
    if (this.free > 0) {
      this.free -= 1;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const grant = () => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        this.waiting.splice(this.waiting.indexOf(grant), 1);
        resolve(false);
      }, ms);
      this.waiting.push(grant);
    });
  }

  private release(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.free += 1;
  }
}

/** One request and its answer. */
export class Exchange implements Head {
  status = 0;
  private request!: http.ClientRequest;
  private response!: http.IncomingMessage;
  private timer: NodeJS.Timeout | undefined;
  private isTimedOut = false;
  private hasEnded = false;

  constructor(readonly node: Node, private readonly limit: Limit, private readonly release: () => void) {}

  field(name: string): string | undefined {
    const value = this.response.headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  /** A trailer of an answer that was read to its end. */
  trailer(name: string): string | undefined {
    return this.response.trailers[name];
  }

  /** Sends it and waits for the head of the answer. */
  async start(request: http.ClientRequest, body: Buffer | undefined, connectMs: number, isSecure: boolean): Promise<void> {
    this.request = request;
    this.watch();
    let isConnected = false;
    try {
      this.response = await new Promise((resolve, reject) => {
        const connecting = setTimeout(() => request.destroy(new Error("it takes too long")), connectMs);
        const connected = () => {
          isConnected = true;
          clearTimeout(connecting);
        };
        request.on("socket", (socket) => {
          if (request.reusedSocket) connected();
          else socket.once(isSecure ? "secureConnect" : "connect", connected);
        });
        request.on("close", () => clearTimeout(connecting));
        request.on("error", reject);
        request.on("response", resolve);
        request.end(body);
      });
      this.status = this.response.statusCode ?? 0;
      // What follows is told by the reading of the body.
      this.response.on("error", () => {});
    } catch (error) {
      this.end();
      throw this.broken(error as NodeJS.ErrnoException, isConnected);
    }
  }

  /** The body, piece by piece. An end that comes too early is an error. */
  async *pieces(): AsyncGenerator<Buffer> {
    try {
      for await (const piece of this.response) {
        if (this.limit.isSilence) this.watch();
        yield piece as Buffer;
      }
      if (!this.response.complete) throw new Error("aborted");
    } catch (error) {
      throw this.broken(error as NodeJS.ErrnoException, true);
    }
  }

  /** The whole body. */
  async read(): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let size = 0;
    for await (const piece of this.pieces()) {
      pieces.push(piece);
      size += piece.length;
      if (size > BODY_BYTES_MAX) throw this.broken(new Error(`it is longer than ${BODY_BYTES_MAX} bytes`), true);
    }
    return Buffer.concat(pieces);
  }

  /** Keeps the connection if the answer was read to its end, and closes it otherwise. */
  end(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    clearTimeout(this.timer);
    if (!this.response?.complete) this.request.destroy();
    this.release();
  }

  private watch(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.isTimedOut = true;
      this.request.destroy(new Error("no whole answer came in time"));
    }, this.limit.ms);
  }

  private broken(error: NodeJS.ErrnoException, isConnected: boolean): AttemptError {
    const failure: Failure = { node: this.node.url, text: "", outcome: "unknown", skip: "backoff" };
    if (this.isTimedOut) failure.text = "no whole answer came in time";
    else failure.text = `the connection broke before the answer was whole: ${error.code ?? error.message}`;
    if (!isConnected) {
      failure.outcome = "not applied";
      failure.text = `cannot connect: ${error.code ?? error.message}`;
      failure.isLasting = TRUST_CODES.test(error.code ?? "");
    }
    return new AttemptError(failure);
  }
}

// Which node is asked: the one that answered last first, those that failed of late last.

import type { AttemptError } from "./errors.js";

const SKIP_FIRST_MS = 1_000;
const SKIP_MS_MAX = 30_000;

/** A node. */
export class Node {
  readonly url: string;
  readonly isSecure: boolean;
  readonly host: string;
  readonly port: number;
  skippedUntil = 0;
  private strikes = 0;

  constructor(given: string) {
    const url = new URL(given);
    if (!["http:", "https:"].includes(url.protocol)) throw new TypeError(`not a URL of a node: ${given}`);
    if (url.pathname !== "/" || url.search || url.hash || url.username)
      throw new TypeError(`the URL of a node ends with its port: ${given}`);
    this.url = url.origin;
    this.isSecure = url.protocol === "https:";
    this.host = url.hostname.replace(/^\[|\]$/g, "");
    this.port = Number(url.port) || (this.isSecure ? 443 : 80);
  }

  /** Notes a failed attempt: the node is asked after the others for some time. */
  hasFailed({ failure: { skip } }: AttemptError): void {
    if (skip === undefined) return this.hasAnswered();
    const wait = skip === "backoff" ? SKIP_FIRST_MS * 2 ** Math.min(this.strikes++, 10) : skip;
    this.skippedUntil = performance.now() + Math.min(wait, SKIP_MS_MAX);
  }

  /** Notes an answer. */
  hasAnswered(): void {
    this.skippedUntil = 0;
    this.strikes = 0;
  }
}

/** All nodes of a client. */
export class Nodes {
  private preferred = 0;

  constructor(readonly all: readonly Node[]) {}

  /** The nodes in the order in which a round asks them. */
  order(): Node[] {
    const now = performance.now();
    const turned = [...this.all.slice(this.preferred), ...this.all.slice(0, this.preferred)];
    const left = (node: Node) => Math.max(node.skippedUntil - now, 0);
    return turned.sort((one, other) => left(one) - left(other));
  }

  /** Notes the node that answered last. */
  prefer(node: Node): void {
    node.hasAnswered();
    this.preferred = this.all.indexOf(node);
  }

  /** The first node alone. */
  first(): Nodes {
    return new Nodes(this.all.slice(0, 1));
  }
}

// What can go wrong: the errors that users see, and the failure of one attempt at one node.

export const PROBLEM_PREFIX = "urn:kvorum:problem:";

/** A problem document (RFC 9457). */
export interface Problem {
  type: string;
  title?: string;
  status?: number;
  detail?: string;
  [field: string]: unknown;
}

/** What one attempt met: the URL of the node, and what happened, in words. */
export interface Attempt {
  node: string;
  text: string;
}

/** What became of a write at a replica. */
export interface ReplicaOutcome {
  url: string;
  outcome: string;
}

/** The base of all errors of a cluster. `status` and `problem` are those of the last answer, if there was one. */
export class KvorumError extends Error {
  constructor(
    text: string,
    readonly status: number | undefined,
    readonly problem: Problem | undefined,
    readonly attempts: readonly Attempt[],
  ) {
    super(text);
    this.name = new.target.name;
  }
}

/** No node served the request, and nothing was applied. */
export class UnavailableError extends KvorumError {}

/** A write may have taken effect, or may yet. It was not repeated. */
export class UnknownOutcomeError extends KvorumError {
  /**
   * The version of the attempt, if the receipt names it. A later read of this version says that the
   * write took effect; a read of another version says nothing.
   */
  get version(): bigint | undefined {
    return versionOf(this.problem?.["timestamp"]);
  }

  /** The receipt: what became of the write at each replica, if there is one. */
  get replicas(): readonly ReplicaOutcome[] {
    const replicas = this.problem?.["replicas"];
    return Array.isArray(replicas) ? replicas : [];
  }
}

/**
 * The condition of a write does not hold, and nothing was written. `version` and `etag` are those of
 * the value that the key has; both undefined if it has none.
 */
export class ConflictError extends KvorumError {
  constructor(
    text: string,
    status: number | undefined,
    problem: Problem | undefined,
    attempts: readonly Attempt[],
    readonly version: bigint | undefined,
    readonly etag: string | undefined,
  ) {
    super(text, status, problem, attempts);
  }
}

/** The request is wrong, or may not be served. */
export class RefusedError extends KvorumError {
  /** The type of the problem, such as `no-right`. */
  get type(): string {
    return problemType(this.problem);
  }
}

/** What is known of a request after a failed attempt. */
export type Outcome = "not applied" | "unknown" | "conflict" | "refused";

/** What is known of an attempt at one node that failed. */
export interface Failure {
  node: string;
  text: string;
  outcome: Outcome;
  status?: number;
  problem?: Problem;
  /** For how many milliseconds other nodes are asked first; "backoff": as the client thinks fit. */
  skip?: number | "backoff";
  /** The next attempt at this node fails in the same way. */
  isLasting?: boolean;
  version?: bigint | undefined;
  etag?: string | undefined;
}

/** An attempt at one node that failed. */
export class AttemptError extends Error {
  constructor(readonly failure: Failure) {
    super(failure.text);
  }

  /** The milliseconds of `Retry-After`, if the node said them. */
  get retryAfter(): number | undefined {
    const { status, skip } = this.failure;
    return status === 503 && typeof skip === "number" ? skip : undefined;
  }
}

/** The type of a problem, without what all of them begin with. */
export function problemType(problem: Problem | undefined): string {
  return problem?.type.startsWith(PROBLEM_PREFIX) ? problem.type.slice(PROBLEM_PREFIX.length) : "";
}

/** The version in a field; undefined if it is none. */
export function versionOf(text: unknown): bigint | undefined {
  return typeof text === "string" && /^[0-9]{1,20}$/.test(text) ? BigInt(text) : undefined;
}

/** The error of an operation whose last attempt this is. */
export function errorOf(last: AttemptError, met: readonly AttemptError[], isRead: boolean): KvorumError {
  const { node, outcome, status, problem, version, etag } = last.failure;
  const attempts = met.map(({ failure }) => ({ node: failure.node, text: failure.text }));
  const text = `${node}: ${last.failure.text}`;
  if (outcome === "conflict") return new ConflictError(text, status, problem, attempts, version, etag);
  if (outcome === "refused") return new RefusedError(text, status, problem, attempts);
  if (outcome === "unknown" && !isRead) {
    const unknown = `the write may have taken effect, or may yet: ${text}`;
    return new UnknownOutcomeError(unknown, status, problem, attempts);
  }
  // Each node says what it said last.
  const said = new Map(attempts.map((attempt) => [attempt.node, `${attempt.node}: ${attempt.text}`]));
  const all = `no node served the request: ${[...said.values()].join("; ")}`;
  return new UnavailableError(all, status, problem, attempts);
}

// What an answer means: success, or the failure of an attempt.

import { AttemptError, PROBLEM_PREFIX, problemType, versionOf } from "./errors.js";
import type { Failure, Outcome, Problem } from "./errors.js";

/** The status and the fields of an answer; their names are in lower case. */
export interface Head {
  status: number;
  field(name: string): string | undefined;
}

/** The failure that an answer other than success is. */
export function failureOf(node: string, head: Head, body: Buffer): AttemptError {
  const problem = hasType(head, "application/problem+json") ? problemIn(head.status, body) : undefined;
  if (problem === undefined) return foreign(node, head);
  const known = { version: versionOf(head.field("kvorum-version")), etag: head.field("etag") };
  return failureOfProblem(node, head.status, problem, { ...known, retryAfter: head.field("retry-after") });
}

/** An answer that no node gives. */
export function foreign(node: string, { status }: Head): AttemptError {
  const text = `the answer, of status ${status}, is not that of a Kvorum node`;
  return new AttemptError({ node, text, outcome: "unknown", status, skip: "backoff" });
}

/** The failure that a problem document is: that of an answer, or of a line of a batch. */
export function failureOfProblem(
  node: string,
  status: number,
  problem: Problem,
  known: { version?: bigint | undefined; etag?: string | undefined; retryAfter?: string | undefined },
): AttemptError {
  const text = `${status} ${problem.title ?? problemType(problem)}: ${problem.detail ?? ""}`;
  const { version, etag, retryAfter } = known;
  const failure: Failure = { node, text, outcome: outcomeOf(status, problem), status, problem, version, etag };
  if (status === 503) failure.skip = /^[0-9]{1,6}$/.test(retryAfter ?? "") ? Number(retryAfter) * 1_000 : 1_000;
  return new AttemptError(failure);
}

function outcomeOf(status: number, problem: Problem): Outcome {
  if (status === 503 || ["late-body", "broken-body"].includes(problemType(problem))) return "not applied";
  if (status === 504 && problem["outcome"] === "not-applied") return "not applied";
  if (status === 500 || status === 504) return "unknown";
  return status === 412 ? "conflict" : "refused";
}

/** Whether it says that the key has no value. */
export function isNoSuchEntity({ status, problem }: { status?: number; problem?: Problem }): boolean {
  return status === 404 && problemType(problem) === "no-such-entity";
}

/** Whether an answer has this media type. */
export function hasType(head: Head, wanted: string): boolean {
  return head.field("content-type")?.split(";")[0]?.trim().toLowerCase() === wanted;
}

/** The object in JSON; undefined if it is none. */
export function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function problemIn(status: number, body: Buffer): Problem | undefined {
  // The answer to a HEAD has no body, and one kind of 404.
  if (body.length === 0) return { type: PROBLEM_PREFIX + (status === 404 ? "no-such-entity" : "") };
  const parsed = objectIn(body.toString());
  const type = parsed?.["type"];
  return typeof type === "string" && type.startsWith(PROBLEM_PREFIX) ? (parsed as Problem) : undefined;
}

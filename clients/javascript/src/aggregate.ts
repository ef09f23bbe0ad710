// What the nodes compute of many entities: the question, and its answer.

import { objectIn } from "./answers.js";
import type { Range } from "./scan.js";

/** What is computed of each group: the sum, or the least or greatest value, of an expression. */
export type AggregateFunction = { sum: string } | { min: string } | { max: string };

/**
 * What an expression amounts to. A whole number that a `number` does not hold exactly is a `bigint`; a
 * time is text of RFC 3339.
 */
export type Scalar = null | boolean | number | bigint | string;

/** The result of a function. */
export interface Aggregate {
  operation: "sum" | "min" | "max";
  /** Null if nothing fitted, or if the sum is too great for a number. */
  value: Scalar;
  /** The number of entities whose value fitted. */
  counted: number;
}

/** The entities that have the same values of `by`. */
export interface Group {
  /** A value for each expression of `by`; null for what does not fit. */
  by: Scalar[];
  count: number;
  /** A result for each function. */
  aggregates: Aggregate[];
}

/** What all entities of a range amount to. */
export interface Aggregates {
  /** The number of entities that were looked at. */
  keys: number;
  /** The number of those that match the condition. */
  matched: number;
  /** Of the whole cluster: how many replicas of each key had to answer. */
  ack: number | undefined;
  /** Of the whole cluster: how many replicas each key has. */
  from: number | undefined;
  groups: Group[];
}

/** The body of the request. */
export function questionOf(
  keys: Range,
  functions: readonly AggregateFunction[],
  by: readonly string[],
  pair: { ack?: number | undefined; from?: number | undefined },
): Buffer {
  return Buffer.from(JSON.stringify({ ...keys.body(pair), by, aggregates: functions }));
}

/** The answer; undefined if it is none. */
export function aggregatesOf(text: string): Aggregates | undefined {
  try {
    const { keys, matched, ack, from, groups } = objectIn(withWholeNumbers(text)) as unknown as Aggregates;
    if (typeof keys !== "number" || typeof matched !== "number") return undefined;
    return { keys, matched, ack, from, groups: groups.map(groupOf) };
  } catch {
    return undefined;
  }
}

function groupOf({ by, count, aggregates }: Group): Group {
  return { by: by.map(scalarOf), count, aggregates: aggregates.map((each) => ({ ...each, value: scalarOf(each.value) })) };
}

const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(\.\d+)?([eE][+-]?\d+)?/g;

/** JSON in which `{"whole":"…"}` stands for a whole number that JSON.parse would round. */
function withWholeNumbers(text: string): string {
  return text.replace(STRING_OR_NUMBER, (found: string, fraction?: string, exponent?: string) => {
    const isExact = found.startsWith('"') || fraction || exponent || Number.isSafeInteger(Number(found));
    return isExact ? found : `{"whole":"${found}"}`;
  });
}

function scalarOf(value: unknown): Scalar {
  if (typeof value !== "object" || value === null) return value as Scalar;
  return BigInt((value as { whole: string }).whole);
}

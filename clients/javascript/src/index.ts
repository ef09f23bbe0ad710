/**
 * A client of Kvorum, a replicated key-value store.
 *
 *     const client = new Client({ urls: ["http://a:8080", "http://b:8080"] });
 *     await client.put("key", "value", { ttl: 60 });
 *     const entity = await client.get("key");
 */
export { Client } from "./client.js";
export type { Aggregate, AggregateFunction, Aggregates, Group, Scalar } from "./aggregate.js";
export type {
  AggregateOptions,
  CallOptions,
  CountOptions,
  GetOptions,
  PairOptions,
  PutOptions,
  ScanOptions,
  TouchOptions,
  DeleteOptions,
} from "./client.js";
export type { ClientOptions } from "./caller.js";
export { ConflictError, KvorumError, RefusedError, UnavailableError, UnknownOutcomeError } from "./errors.js";
export type { Attempt, Problem, ReplicaOutcome } from "./errors.js";
export { del, get, put, touch } from "./model.js";
export type { Bytes, Entity, Match, Operation, Replica, Result, Written } from "./model.js";

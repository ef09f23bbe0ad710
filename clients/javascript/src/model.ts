// What operations take and give, and how keys, values and versions are written.

import type { KvorumError } from "./errors.js";

/** Bytes, or text that is sent as UTF-8. */
export type Bytes = Uint8Array | string;

/** An etag, `*`, or a version. */
export type Match = string | bigint;

/** A key with its value and version. */
export interface Entity {
  key: Buffer;
  /** Empty if values were left out. */
  value: Buffer;
  version: bigint;
  /** Undefined in scans. */
  etag?: string | undefined;
  expires?: Date | undefined;
  /** The value is left out, because `ifNoneMatch` fits. */
  notModified: boolean;
}

/** A write that took effect. */
export interface Written {
  version: bigint;
  etag: string | undefined;
}

/** A node that is a replica of a key. */
export interface Replica {
  name: string;
  url: string;
}

/**
 * What became of an operation of a batch. `error` is undefined if it was done; a `get` of a key without
 * a value has the status 404 and no error. `status` is 0 without an answer.
 */
export interface Result {
  status: number;
  version?: bigint | undefined;
  value?: Buffer | undefined;
  expires?: Date | undefined;
  error?: KvorumError | undefined;
}

/** The line of an operation in a batch. */
export type Line = Record<string, unknown>;

/** An operation of a batch, made by `get`, `put`, `touch` or `del`. */
export interface Operation {
  readonly isRead: boolean;
  readonly line: Readonly<Line>;
}

export const KEY_BYTES_MAX = 4096;

/** Reads a key, in a batch. */
export function get(key: Bytes): Operation {
  return { isRead: true, line: { op: "get", ...bytesIn("key", keyOf(key)) } };
}

/** Writes a value, in a batch. `ifMatch` is a version or the etag of one. */
export function put(
  key: Bytes,
  value: Bytes,
  options: { ttl?: number; ifMatch?: Match; ifAbsent?: boolean } = {},
): Operation {
  const { ttl, ifMatch, ifAbsent } = options;
  if (ifAbsent) excludeBoth(ifMatch);
  const line = { op: "put", ...bytesIn("key", keyOf(key)), ...bytesIn("value", bytesOf(value)) };
  return { isRead: false, line: { ...line, ...conditionIn(ifMatch, ttl), ...(ifAbsent ? { if_absent: true } : {}) } };
}

/** Changes when a value expires, in a batch; without `ttl` never. */
export function touch(key: Bytes, options: { ttl?: number; ifMatch?: Match } = {}): Operation {
  const line = { op: "put", ...bytesIn("key", keyOf(key)), touch: true };
  return { isRead: false, line: { ...line, ...conditionIn(options.ifMatch, options.ttl) } };
}

/** Deletes a key, in a batch. */
export function del(key: Bytes, options: { ifMatch?: Match } = {}): Operation {
  const line = { op: "delete", ...bytesIn("key", keyOf(key)) };
  return { isRead: false, line: { ...line, ...conditionIn(options.ifMatch, undefined) } };
}

/** The bytes of a value. */
export function bytesOf(given: Bytes): Buffer {
  if (typeof given === "string") return Buffer.from(given);
  if (!(given instanceof Uint8Array)) throw new TypeError("bytes are a string or a Uint8Array");
  return Buffer.from(given.buffer, given.byteOffset, given.byteLength);
}

/** The bytes of a key; an error if no key has so many. */
export function keyOf(given: Bytes, bytesMax = KEY_BYTES_MAX): Buffer {
  const key = bytesOf(given);
  if (key.length < 1 || key.length > bytesMax)
    throw new RangeError(`a key has 1 to ${bytesMax} bytes, not ${key.length}`);
  return key;
}

/** The bytes as the value of a query parameter. */
export function escape(bytes: Uint8Array): string {
  let escaped = "";
  for (const byte of bytes) {
    const character = String.fromCharCode(byte);
    escaped += /[A-Za-z0-9._~-]/.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
  }
  return escaped;
}

/** The value of `If-Match`. Nodes know a version by its timestamp and ignore the hash. */
export function etagOf(match: Match): string {
  if (typeof match === "bigint") return `"${match.toString(16).padStart(16, "0")}-${"0".repeat(16)}"`;
  if (!/^[ -~]+$/.test(match)) throw new TypeError(`not an etag: ${match}`);
  return match;
}

/** A time to live; an error if it is none. */
export function secondsOf(ttl: number): number {
  if (!Number.isSafeInteger(ttl) || ttl < 1)
    throw new RangeError(`ttl is a whole number of seconds from 1, not ${ttl}`);
  return ttl;
}

/** An error if a write has `ifAbsent` and this condition. */
export function excludeBoth(ifMatch: Match | undefined): void {
  if (ifMatch !== undefined) throw new TypeError("ifMatch and ifAbsent exclude each other");
}

/** The bytes in a line of an answer. */
export function bytesFrom(line: Line, name: string): Buffer | undefined {
  const text = line[name];
  if (typeof text === "string") return Buffer.from(text);
  const coded = line[`${name}_base64`];
  return typeof coded === "string" ? Buffer.from(coded, "base64") : undefined;
}

/** The time of an RFC 3339 text. */
export function instantOf(text: unknown): Date | undefined {
  return typeof text === "string" ? new Date(text) : undefined;
}

function conditionIn(ifMatch: Match | undefined, ttl: number | undefined): Line {
  return {
    ...(ttl === undefined ? {} : { ttl: secondsOf(ttl) }),
    ...(ifMatch === undefined ? {} : { if_version: versionIn(ifMatch) }),
  };
}

function versionIn(match: Match): string {
  if (typeof match === "bigint") return match.toString();
  const digits = /^"([0-9a-f]{16})-[0-9a-f]{16}"$/.exec(match)?.[1];
  if (digits === undefined)
    throw new TypeError(`a condition in a batch is a version or the etag of one, not ${match}`);
  return BigInt(`0x${digits}`).toString();
}

/** The bytes as a field of a line to send. */
export function bytesIn(name: string, bytes: Buffer): Line {
  const text = bytes.toString();
  // What is not UTF-8 does not come back as it was.
  return Buffer.from(text).equals(bytes) ? { [name]: text } : { [`${name}_base64`]: bytes.toString("base64") };
}

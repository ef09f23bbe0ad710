// What the client does with nodes that fail in every way.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, test } from "node:test";
import { Client, ConflictError, KvorumError, RefusedError, UnavailableError, UnknownOutcomeError, get, put } from "kvorum";
import { Fake, all, answer, closedPort, lines, problem } from "./support.mjs";

const OK = answer(201);
let opened = [];

afterEach(() => {
  for (const each of opened) each.close();
  opened = [];
});

async function fake(answers, options) {
  const made = await Fake.start(answers, options);
  opened.unshift(made);
  return made;
}

function client(nodes, options) {
  const made = new Client({ urls: nodes.map((node) => node.url ?? node), rounds: 2, ...options });
  opened.unshift(made);
  return made;
}

test("a write is sent once if the connection breaks after it", async () => {
  const [broken, other] = [await fake([]), await fake([OK])];
  await assert.rejects(client([broken, other]).put("k", "v"), UnknownOutcomeError);
  assert.deepEqual([broken.requests.length, other.requests.length], [1, 0]);
});

test("a read goes on at the next node", async () => {
  const entity = await client([await fake([]), await fake([answer(200, "v")])]).get("k");
  assert.deepEqual([entity.value.toString(), entity.version], ["v", 7n]);
});

test("an aggregate goes on at the next node", async () => {
  const json = { "content-type": "application/json" };
  const foreign = answer(200, '{"keys":1,"matched":1,"groups":[{}]}', json);
  const whole = answer(200, '{"keys":1,"matched":1,"groups":[]}', json);
  const found = await client([await fake([]), await fake([foreign]), await fake([whole])]).aggregate([]);
  assert.deepEqual(found, { keys: 1, matched: 1, ack: undefined, from: undefined, groups: [] });
});

test("a write goes on where nothing was sent", async () => {
  assert.equal((await client([await closedPort(), await fake([OK])]).put("k", "v")).version, 7n);
});

test("a write goes on after what was not applied", async () => {
  for (const refusal of [
    problem(503, "overloaded", {}, { "retry-after": 9 }),
    problem(504, "not-enough-replicas", { outcome: "not-applied" }),
    problem(408, "late-body"),
    problem(400, "broken-body"),
  ]) {
    const [refusing, other] = [await fake([refusal]), await fake([OK])];
    await client([refusing, other]).put("k", "v");
    assert.deepEqual([refusing.requests.length, other.requests.length], [1, 1]);
  }
});

test("a single node is asked again after a 503", async () => {
  const node = await fake([problem(503, "overloaded", {}, { "retry-after": 0 }), OK]);
  await client([node]).put("k", "v");
  assert.deepEqual([node.requests.length, node.connections], [2, 1]);
});

test("a write stops at an unknown outcome", async () => {
  const replicas = [{ url: "http://a", outcome: "timeout" }];
  for (const unknown of [
    problem(504, "not-enough-replicas", { timestamp: "12", replicas }),
    problem(500, "scan-failed"),
    answer(503, "<html>", { "content-type": "text/html" }),
    answer(200, "<html>", { "content-type": "text/html" }),
    answer(503, '{"type":"about:blank"}', { "content-type": "application/problem+json" }),
    "HTTP/1.1 201 X\r\ncontent-length: 0\r\n\r\n",
    "HTTP/1.1 201 X\r\nkvorum-version: 7\r\ncontent-length: 9\r\n\r\ncut",
    "SSH-2.0-x\r\n\r\n",
  ]) {
    const [node, other] = [await fake([unknown], { closes: true }), await fake([OK])];
    await assert.rejects(client([node, other]).put("k", "v"), (error) => {
      assert.ok(error instanceof UnknownOutcomeError, String(error));
      if (unknown.includes("timestamp")) assert.deepEqual([error.version, error.replicas], [12n, replicas]);
      return true;
    });
    assert.equal(other.requests.length, 0);
  }
});

test("a silent node is left", async () => {
  const [silent, other] = [await fake(["", ""]), await fake([answer(200, "v")])];
  const options = { attemptTimeout: 1_000 };
  assert.equal((await client([silent, other], options).get("k")).value.toString(), "v");
  await assert.rejects(client([silent, other], options).put("k", "v"), UnknownOutcomeError);
});

test("a foreign 404 is no absence", async () => {
  const page = answer(404, "<html>", { "content-type": "text/html" });
  const entity = await client([await fake([page]), await fake([answer(200, "v")])]).get("k");
  assert.equal(entity.value.toString(), "v");
  assert.equal(await client([await fake([problem(404, "no-such-entity")])]).get("k"), undefined);
});

test("errors that are final", async () => {
  const [other, conflict] = [await fake([OK]), await fake([problem(412, "other-version")])];
  await assert.rejects(client([conflict, other]).put("k", "v", { ifAbsent: true }), (error) => {
    return error instanceof ConflictError && error.version === 7n;
  });
  assert.match(conflict.requests[0], /If-None-Match: \*/i);
  await assert.rejects(client([await fake([problem(403, "no-right")]), other]).put("k", "v"), (error) => {
    return error instanceof RefusedError && error.status === 403 && error.type === "no-right";
  });
  assert.equal(other.requests.length, 0);
});

test("rounds are bounded", async () => {
  const nodes = [await closedPort(), await closedPort()];
  await assert.rejects(client(nodes, { rounds: 3 }).put("k", "v"), (error) => {
    return error instanceof UnavailableError && error.attempts.length === 6;
  });
});

test("a failed node is asked last", async () => {
  const [broken, other] = [await fake([]), await fake(Array(3).fill(answer(200, "v")))];
  const reader = client([broken, other]);
  for (let count = 0; count < 3; count++) await reader.get("k");
  assert.deepEqual([broken.requests.length, other.requests.length], [1, 3]);
  // Also if none has answered since.
  const [lost, next] = [await fake([undefined, OK]), await fake([OK])];
  const writer = client([lost, next]);
  await assert.rejects(writer.put("k", "v"), UnknownOutcomeError);
  await writer.put("k", "v");
  assert.deepEqual([lost.requests.length, next.requests.length], [1, 1]);
});

test("connections are kept", async () => {
  const node = await fake(Array(5).fill(OK));
  const writer = client([node]);
  for (let count = 0; count < 5; count++) await writer.put("k", "v");
  assert.deepEqual([node.requests.length, node.connections], [5, 1]);
});

test("so many requests run at a time, and others wait", async () => {
  const node = await fake(Array(8).fill(OK));
  const writer = client([node], { connections: 2 });
  await Promise.all(Array.from({ length: 8 }, () => writer.put("k", "v")));
  assert.deepEqual([node.requests.length, node.connections <= 2], [8, true]);
  const silent = await fake([""]);
  const waiting = client([silent], { connections: 1, timeout: 200 });
  const results = await Promise.allSettled([waiting.put("k", "v"), waiting.put("k", "v")]);
  assert.ok(results[0].reason instanceof UnknownOutcomeError, String(results[0].reason));
  assert.ok(results[1].reason instanceof UnavailableError, String(results[1].reason));
  assert.equal(silent.requests.length, 1);
});

test("a batch that is cut keeps what was answered", async () => {
  const cut = lines([{ status: 201, version: "5" }], { isWhole: false });
  const [node, other] = [await fake([cut], { closes: true }), await fake([OK])];
  const [done, lost, unread] = await client([node, other]).batch([put("a", "1"), put("b", "2"), get("c")]);
  assert.deepEqual([done.status, done.version, done.error], [201, 5n, undefined]);
  assert.ok(lost.error instanceof UnknownOutcomeError);
  assert.ok(unread.error instanceof UnavailableError);
  assert.equal(other.requests.length, 0);
});

test("a batch of gets is a read", async () => {
  const whole = lines([{ status: 200, version: "5", value: "v" }]);
  const [result] = await client([await fake([]), await fake([whole])]).batch([get("a")]);
  assert.equal(result.value.toString(), "v");
});

test("a scan goes on behind its last key", async () => {
  const entities = ["a", "b", "c"].map((key) => ({ key, value: "v", version: "1" }));
  const node = await fake([lines(entities.slice(0, 2), { isWhole: false })], { closes: true });
  const other = await fake([lines(entities.slice(2))]);
  const keys = (await all(client([node, other]).scan({ limit: 3 }))).map(({ key }) => key.toString());
  assert.deepEqual(keys, ["a", "b", "c"]);
  assert.match(other.requests[0], /start=b%00.*limit=1/);
});

test("a scan with another count is an error", async () => {
  const node = await fake([lines([{ key: "a", value: "v", version: "1" }], { sent: 2 })]);
  await assert.rejects(all(client([node]).scan()), KvorumError);
});

test("a scan that always breaks ends", async () => {
  const node = await fake(Array(9).fill(lines([], { isWhole: false })), { closes: true });
  await assert.rejects(all(client([node], { rounds: 3 }).scan()), UnavailableError);
});

test("a token of a file, and a trace", async (context) => {
  const folder = mkdtempSync(path.join(tmpdir(), "kvorum-"));
  context.after(() => rmSync(folder, { recursive: true }));
  const tokenFile = path.join(folder, "token");
  writeFileSync(tokenFile, "one\n");
  const node = await fake([OK, OK]);
  const writer = client([node], { tokenFile, traceparent: () => "00-aa-bb-01" });
  await writer.put("k", "v");
  writeFileSync(tokenFile, "two\n");
  utimesSync(tokenFile, 1, 1);
  await writer.put("k", "v", { traceparent: "00-cc-dd-01" });
  assert.match(node.requests[0], /traceparent: 00-aa-bb-01[^]*Authorization: Bearer one/);
  assert.match(node.requests[1], /traceparent: 00-cc-dd-01[^]*Authorization: Bearer two/);
});

test("wrong arguments", async () => {
  const any = client([await closedPort()]);
  for (const call of [
    () => any.get(""),
    () => any.get("k".repeat(4097)),
    () => any.put("k", 5),
    () => any.put("k", "v", { ttl: 0 }),
    () => any.put("k", "v", { ifAbsent: true, ifMatch: "*" }),
    async () => all(any.scan({ prefix: "a", start: "b" })),
    async () => all(any.scan({ scope: "all" })),
    () => any.put("k", "v", { ifMatch: '"\r\n' }),
    () => any.put("k", "v", { traceparent: "a\r\nb: c" }),
    () => any.batch([put("k", "v".repeat(17 << 20))]),
  ])
    await assert.rejects(async () => call(), (error) => error instanceof TypeError || error instanceof RangeError);
  assert.throws(() => new Client({ urls: [] }), TypeError);
  assert.throws(() => new Client({ urls: ["ftp://a"] }), TypeError);
});

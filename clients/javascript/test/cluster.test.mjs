// The client against three real nodes, of which one is killed.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import {
  Client,
  ConflictError,
  RefusedError,
  UnavailableError,
  UnknownOutcomeError,
  del,
  get,
  put,
  touch,
} from "kvorum";
import { Cluster, all, closedPort, cuttingProxy } from "./support.mjs";

const BINARY = Buffer.from([0xff, 0, 10, 43, 38, 32, 0xfe]);
const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("three nodes", () => {
  let cluster;
  let client;

  before(async () => {
    cluster = await Cluster.start();
    client = new Client({ urls: cluster.urls });
  });

  after(async () => {
    client?.close();
    await cluster?.close();
  });

  test("values", async () => {
    const pairs = [
      ["text/é", "wörld"],
      [BINARY, BINARY],
      ["empty", ""],
      ["long", "x".repeat(3_000_000)],
    ];
    for (const [key, value] of pairs) {
      const written = await client.put(key, value);
      const [entity, head] = [await client.get(key), await client.head(key)];
      assert.ok(entity.value.equals(Buffer.from(value)));
      assert.deepEqual({ version: entity.version, etag: entity.etag }, written);
      assert.deepEqual({ version: head.version, etag: head.etag }, written);
      assert.equal(head.value.length, 0);
      assert.equal((await client.get(key, { ifNoneMatch: written.etag })).notModified, true);
      assert.equal(entity.notModified, false);
      assert.ok((await client.delete(key)).version > written.version);
      assert.equal(await client.get(key), undefined);
      assert.equal(await client.head(key), undefined);
    }
    assert.equal(await client.get("never", { ack: 1, from: 1 }), undefined);
  });

  test("expiry", async () => {
    await client.put("session", "v", { ttl: 3600 });
    const { expires } = await client.get("session");
    assert.ok(expires.getTime() > Date.now() + 3_000_000);
    await client.touch("session", { ttl: 7200 });
    assert.ok((await client.head("session")).expires > expires);
    await client.touch("session");
    const entity = await client.get("session");
    assert.deepEqual([entity.expires, entity.value.toString()], [undefined, "v"]);
    await assert.rejects(client.touch("no session", { ttl: 60 }), (error) => {
      return error instanceof ConflictError && error.version === undefined && error.etag === undefined;
    });
  });

  test("conditions", async () => {
    const first = await client.put("condition", "1", { ifAbsent: true });
    await assert.rejects(client.put("condition", "2", { ifAbsent: true }), (error) => {
      assert.ok(error instanceof ConflictError, String(error));
      assert.deepEqual({ version: error.version, etag: error.etag }, first);
      return true;
    });
    const second = await client.put("condition", "2", { ifMatch: first.etag });
    const third = await client.put("condition", "3", { ifMatch: second.version });
    for (const ifMatch of [first.etag, second.version]) {
      await assert.rejects(client.put("condition", "x", { ifMatch }), ConflictError);
      await assert.rejects(client.delete("condition", { ifMatch }), ConflictError);
      await assert.rejects(client.touch("condition", { ifMatch }), ConflictError);
    }
    await client.put("condition", "4", { ifMatch: "*" });
    assert.ok((await client.head("condition")).version > third.version);
    await client.delete("condition", { ifMatch: "*" });
    await assert.rejects(client.put("condition", "5", { ifMatch: "*" }), ConflictError);
  });

  test("a batch", async () => {
    const { etag, version } = await client.put("batch/old", "1");
    const results = await client.batch([
      put(BINARY, BINARY, { ttl: 60 }),
      get(BINARY),
      get("batch/none"),
      put("batch/old", "2", { ifAbsent: true }),
      put("batch/old", "2", { ifMatch: etag }),
      touch("batch/old", { ttl: 60 }),
      del(BINARY),
      del("batch/old", { ifMatch: 1n }),
    ]);
    assert.deepEqual(results.map(({ status }) => status), [201, 200, 404, 412, 201, 201, 202, 412]);
    assert.ok(results[1].value.equals(BINARY));
    assert.equal(results[1].version, results[0].version);
    assert.ok(results[1].expires instanceof Date);
    assert.equal(results[2].error, undefined);
    assert.ok(results[3].error instanceof ConflictError);
    assert.equal(results[3].error.version, version);
    assert.deepEqual(await client.batch([]), []);
  });

  test("scans", async () => {
    const keys = Array.from({ length: 200 }, (_, number) => `scan/${String(number).padStart(3, "0")}`);
    await client.batch(keys.map((key) => put(key, `${key}=`, key < "scan/1" ? { ttl: 600 } : {})));
    const entities = await all(client.scan({ prefix: "scan/" }));
    assert.deepEqual(entities.map(({ key }) => key.toString()), keys);
    assert.ok(entities.every(({ key, value }) => value.toString() === `${key}=`));
    assert.ok(entities[0].expires && !entities[150].expires);
    const some = await all(client.scan({ start: "scan/010", end: "scan/020", limit: 5, values: false }));
    assert.deepEqual(some.map(({ key, value }) => [key.toString(), value.length]), keys.slice(10, 15).map((key) => [key, 0]));
    assert.equal(await client.count({ prefix: "scan/" }), keys.length);
    assert.equal(await client.count({ start: "b", end: "a" }), 0);
    assert.deepEqual(await all(client.scan({ start: "b", end: "a" })), []);
    assert.equal(await client.count({ prefix: "scan/", scope: "node" }), keys.length);
    assert.equal((await all(client.scan({ prefix: "scan/", scope: "node" }))).length, keys.length);
    for await (const { key } of client.scan({ prefix: "scan/" })) {
      assert.equal(key.toString(), keys[0]);
      break;
    }
    await client.put(BINARY, BINARY);
    const [binary] = await all(client.scan({ start: BINARY }));
    assert.ok(binary.key.equals(BINARY) && binary.value.equals(BINARY));
    // An entity of a scan is a condition.
    await client.delete(entities[0].key, { ifMatch: entities[0].version });
  });

  test("scans over connections that break", async () => {
    const keys = Array.from({ length: 100 }, (_, number) => `cut/${String(number).padStart(3, "0")}`);
    await client.batch(keys.map((key) => put(key, "v".repeat(1_000))));
    const proxy = await cuttingProxy(cluster.urls[0], 30_000);
    const cut = new Client({ urls: [proxy.url], rounds: 2 });
    try {
      const texts = async (options) => (await all(cut.scan(options))).map(({ key }) => key.toString());
      assert.deepEqual(await texts({ prefix: "cut/" }), keys);
      assert.deepEqual(await texts({ prefix: "cut/", limit: 70 }), keys.slice(0, 70));
      assert.ok(proxy.cuts >= 5);
    } finally {
      cut.close();
      proxy.close();
    }
  });

  async function putOrders() {
    const orders = [
      ["1", "DE", 120.5],
      ["2", "FR", 80],
      ["3", "DE", 310],
      ["4", "FR", 150],
    ];
    const puts = orders.map(([key, country, total]) => put(`order/${key}`, JSON.stringify({ country, total })));
    await client.batch([...puts, put("order/note", "call back")]);
  }

  test("conditions of scans", async () => {
    await putOrders();
    const where = "value.total > 100";
    const keys = async (options) => (await all(client.scan(options))).map(({ key }) => key.toString());
    assert.deepEqual(await keys({ prefix: "order/", where, values: false }), ["order/1", "order/3", "order/4"]);
    assert.deepEqual(await keys({ prefix: "order/", where, limit: 1 }), ["order/1"]);
    for (const scope of ["cluster", "node"])
      assert.equal(await client.count({ prefix: "order/", where: "value.country == 'FR'", scope }), 2);
    await assert.rejects(client.count({ where: "value.total >" }), (error) => {
      return error instanceof RefusedError && error.status === 400;
    });
    await assert.rejects(all(client.scan({ where: "key" })), RefusedError);
  });

  test("aggregates", async () => {
    await putOrders();
    const functions = [{ sum: "value.total" }, { min: "value.total" }, { max: "version" }];
    const by = ["value.country", "value.total > 130"];
    const options = { by, prefix: "order/", where: "key != 'order/2'", ack: 2, from: 3 };
    const { groups, ...found } = await client.aggregate(functions, options);
    assert.deepEqual(found, { keys: 5, matched: 4, ack: 2, from: 3 });
    assert.deepEqual(
      groups.map(({ by, count }) => [...by, count]),
      [["DE", false, 1], ["DE", true, 1], ["FR", true, 1], [null, null, 1]],
    );
    const { version } = await client.head("order/1");
    assert.deepEqual(groups[0].aggregates, [
      { operation: "sum", value: 120.5, counted: 1 },
      { operation: "min", value: 120.5, counted: 1 },
      { operation: "max", value: version, counted: 1 },
    ]);
    assert.deepEqual(groups[3].aggregates[0], { operation: "sum", value: null, counted: 0 });
    assert.deepEqual(await client.aggregate([], { prefix: "order/", scope: "node" }), {
      keys: 5,
      matched: 5,
      ack: undefined,
      from: undefined,
      groups: [{ by: [], count: 5, aggregates: [] }],
    });
    await client.put(Buffer.concat([Buffer.from("binary/"), BINARY]), "9007199254740993");
    const numbers = await client.aggregate([{ min: "value" }, { max: "key" }], { prefix: Buffer.from("binary/\xff", "latin1") });
    assert.deepEqual(numbers.groups[0].aggregates.map(({ value }) => value), [9007199254740993n, null]);
    await client.put("text/1", '"99999999999999999999 \\" 1"');
    const texts = await client.aggregate([{ max: "value" }], { start: "text/1", end: "text/2" });
    assert.equal(texts.groups[0].aggregates[0].value, '99999999999999999999 " 1');
    await assert.rejects(client.aggregate([{ sum: "value +" }]), (error) => {
      return error instanceof RefusedError && error.status === 400 && error.problem.parameter === "aggregates";
    });
  });

  test("pages", async () => {
    const replicas = await client.replicas("k");
    assert.deepEqual(replicas.map(({ url }) => url).sort(), [...cluster.urls].sort());
    assert.equal((await client.status()).state, "serving");
  });

  test("a wrong request names its trace", async () => {
    await assert.rejects(client.put("k", "v", { ack: 9, traceparent: TRACE }), (error) => {
      assert.ok(error instanceof RefusedError, String(error));
      assert.deepEqual([error.status, error.type], [400, "bad-parameter"]);
      assert.equal(error.problem.trace, TRACE.split("-")[1]);
      return true;
    });
  });

  test("too few replicas leave a receipt", async () => {
    await cluster.tell("stop 3");
    try {
      await assert.rejects(client.put("few", "v", { ack: 3, from: 3 }), (error) => {
        assert.ok(error instanceof UnknownOutcomeError, String(error));
        const { outcome } = error.replicas.find(({ url }) => url === cluster.urls[2]);
        assert.ok(["refused", "suspected", "timeout"].includes(outcome), outcome);
        assert.equal(typeof error.version, "bigint");
        return true;
      });
      await assert.rejects(client.get("few", { ack: 3, from: 3, timeout: 3_000 }), UnavailableError);
      await client.put("few", "v");
    } finally {
      await cluster.tell("start 3");
      await cluster.tell("ready 3");
    }
  });

  test("a node is killed: only writes under way may be unknown", async () => {
    const written = new Map();
    const others = [];
    let isOver = false;
    let wake = () => {};
    const work = async (worker) => {
      const own = new Client({ urls: cluster.urls });
      for (let number = 0; !isOver; number++) {
        const key = `kill/${worker}/${String(number).padStart(6, "0")}`;
        try {
          const { version } = await own.put(key, key);
          assert.equal((await own.get(key)).version, version);
          written.set(key, version);
        } catch (error) {
          if (!(error instanceof UnknownOutcomeError)) others.push(error);
        }
        wake();
      }
      own.close();
    };
    const waitFor = async (more) => {
      const wanted = written.size + more;
      while (written.size < wanted && others.length === 0) await new Promise((resolve) => (wake = resolve));
    };
    const workers = [0, 1, 2, 3].map(work);
    try {
      await waitFor(100);
      await cluster.tell("kill 1");
      await waitFor(200);
      await cluster.tell("stop 1");
      await waitFor(100);
    } finally {
      isOver = true;
      await Promise.all(workers);
      await cluster.tell("start 1");
      await cluster.tell("ready 1");
    }
    assert.deepEqual(others, []);
    const found = new Map();
    for await (const { key, version } of client.scan({ prefix: "kill/" })) found.set(key.toString(), version);
    for (const [key, version] of written) assert.equal(found.get(key), version, key);
  });
});

test("TLS and tokens", async () => {
  const cluster = await Cluster.start("--trust");
  try {
    const { urls, ca_file: caFile, token_file: tokenFile } = cluster.told;
    const client = new Client({ urls: [await closedPort(), ...urls], caFile, tokenFile });
    await client.put("k", "v");
    assert.equal((await client.get("k")).value.toString(), "v");
    assert.ok((await all(client.scan())).some(({ key }) => key.toString() === "k"));
    client.close();
    const stranger = new Client({ urls, caFile, token: "no-token" });
    await assert.rejects(stranger.get("k"), (error) => {
      return error instanceof RefusedError && error.status === 401 && error.type === "no-token";
    });
    stranger.close();
    const distrusting = new Client({ urls, tokenFile });
    await assert.rejects(distrusting.put("k", "v"), (error) => {
      // Distrust lasts, so there is no second round.
      return error instanceof UnavailableError && error.attempts.length === urls.length;
    });
    distrusting.close();
  } finally {
    await cluster.close();
  }
});

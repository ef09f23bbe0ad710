// What the tests share: a real cluster, and fake nodes.

import { spawn } from "node:child_process";
import { once } from "node:events";
import net from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const NODES = process.env.KVORUM_TEST_NODES ?? fileURLToPath(new URL("../../testing/nodes.py", import.meta.url));

/** Three nodes, which end with the test. */
export class Cluster {
  static async start(...options) {
    const cluster = new Cluster();
    cluster.process = spawn("python3", [NODES, ...options], { stdio: ["pipe", "pipe", "inherit"] });
    cluster.lines = createInterface(cluster.process.stdout)[Symbol.asyncIterator]();
    cluster.told = await cluster.line();
    cluster.urls = cluster.told.urls;
    return cluster;
  }

  async line() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error("the nodes did not start");
    const told = JSON.parse(value);
    if (told.error) throw new Error(told.error);
    return told;
  }

  /** Has it done, such as `kill 3`. */
  tell(words) {
    this.process.stdin.write(`${words}\n`);
    return this.line();
  }

  async close() {
    const ended = once(this.process, "exit");
    this.process.stdin.end();
    await ended;
  }
}

/**
 * A node that answers with given bytes, one answer a request, and then no more. `undefined` closes the
 * connection after the request has come, and "" answers nothing.
 */
export class Fake {
  static async start(answers, { closes = false } = {}) {
    const fake = new Fake();
    Object.assign(fake, { requests: [], connections: 0, sockets: [] });
    const server = net.createServer((socket) => {
      fake.connections += 1;
      fake.sockets.push(socket);
      socket.on("error", () => {});
      let came = "";
      socket.on("data", (data) => {
        came += data.toString("latin1");
        const end = came.indexOf("\r\n\r\n");
        const length = Number(/content-length: (\d+)/i.exec(came)?.[1] ?? 0);
        if (end < 0 || came.length < end + 4 + length) return;
        fake.requests.push(came.slice(0, end));
        came = "";
        const answer = answers.shift();
        if (answer === undefined) socket.end();
        else if (closes) socket.end(answer);
        else socket.write(answer);
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    fake.server = server;
    fake.url = `http://127.0.0.1:${server.address().port}`;
    return fake;
  }

  close() {
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
  }
}

/** An answer of a node. */
export function answer(status, body = "", fields = {}) {
  const all = { "kvorum-version": 7, etag: '"0000000000000007-0000000000000000"', ...fields };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} X\r\n${lines.join("")}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** A problem of a node. */
export function problem(status, name, more = {}, fields = {}) {
  const body = JSON.stringify({ type: `urn:kvorum:problem:${name}`, title: name, status, ...more });
  return answer(status, body, { "content-type": "application/problem+json", ...fields });
}

/** An answer of lines of JSON, which ends with its last chunk if it is whole. */
export function lines(given, { isWhole = true, sent = given.length } = {}) {
  const head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
  const chunks = given.map((line) => `${JSON.stringify(line)}\n`).map((line) => `${line.length.toString(16)}\r\n${line}\r\n`);
  return head + chunks.join("") + (isWhole ? `0\r\nKvorum-Count: ${sent}\r\n\r\n` : "");
}

/** The URL of a port at which nothing listens. */
export async function closedPort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}`;
  server.close();
  await once(server, "close");
  return url;
}

/** Passes bytes between a client and a node, and cuts each connection after some of the node's. */
export async function cuttingProxy(url, bytesMax) {
  const target = new URL(url);
  const proxy = { cuts: 0 };
  const server = net.createServer((client) => {
    const node = net.connect(Number(target.port), target.hostname);
    let left = bytesMax;
    client.on("error", () => {});
    node.on("error", () => {});
    client.on("close", () => node.destroy());
    client.pipe(node);
    node.on("data", (data) => {
      if (left <= 0) return;
      const passed = data.subarray(0, left);
      left -= passed.length;
      if (left > 0) return void client.write(passed);
      proxy.cuts += 1;
      client.end(passed);
    });
    node.on("end", () => client.end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  proxy.close = () => server.close();
  return proxy;
}

/** All that an iterator gives. */
export async function all(iterator) {
  const given = [];
  for await (const each of iterator) given.push(each);
  return given;
}

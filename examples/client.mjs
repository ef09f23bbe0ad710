// A client in JavaScript, without packages: node examples/client.mjs [URL ...]
const nodes = process.argv.length > 2 ? process.argv.slice(2) : ["http://127.0.0.1:8080"];
const majority = Math.floor(nodes.length / 2) + 1, of = nodes.length;

// Asks the first node, and the next one if a node cannot be reached.
async function send(method, path, body, headers = {}) {
  for (const node of nodes) {
    try {
      const answer = await fetch(node + path, { method, body, headers, signal: AbortSignal.timeout(15000) });
      return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()) };
    } catch (error) {
      console.error(`${node}: ${error.cause ?? error}: asking the next node`);
    }
  }
  throw new Error("no node can be reached");
}

// A key is bytes: all of them may be escaped.
const escaped = (key) => [...key].map((byte) => "%" + byte.toString(16).padStart(2, "0")).join("");
const entity = (key, ack) => `/v0/entity?id=${escaped(key)}&ack=${ack}&from=${of}`;

function expect(found, wanted) {
  if (String(found) !== String(wanted)) throw new Error(`expected ${wanted}, but the answer is ${found}`);
}

const key = Buffer.concat([Buffer.from("javascript €/+&%"), Buffer.from([0, 255])]);
const value = Buffer.from("\0 is a byte, too");
expect((await send("PUT", entity(key, majority), value)).status, 201);
const read = await send("GET", entity(key, majority));
expect([read.status, read.body.equals(value)], [200, true]);
expect((await send("DELETE", entity(key, majority))).status, 202);
expect((await send("GET", entity(key, majority))).status, 404);

const operations = [{ op: "put", key: "js", value: "1" }, { op: "get", key: "js" }, { op: "delete", key: "js" }];
const lines = operations.map((operation) => JSON.stringify(operation) + "\n").join("");
const batch = await send("POST", `/v0/batch?ack=${majority}&from=${of}`, lines, { "Content-Type": "application/x-ndjson" });
const answers = batch.body.toString().trim().split("\n").map((line) => JSON.parse(line));
expect([batch.status, answers.map((answer) => answer.status), answers[1].value], [200, [201, 200, 202], "1"]);

const all = await send("PUT", entity(key, of), value); // All nodes must answer.
if (all.status === 504) { // The receipt says what became of the write at each of them.
  for (const { url, outcome } of JSON.parse(all.body).replicas) console.log(url, outcome);
}
console.log("ok");

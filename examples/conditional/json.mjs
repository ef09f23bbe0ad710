// Read, modify, write: several clients change one JSON document, and no change is lost.
//   node json.mjs URL ...
//
// A client reads the document, changes its copy, and writes it if nobody else has written meanwhile
// (If-Match). Otherwise it begins again. Each change has an ID that stays in the document: so a client
// that does not know whether its write took effect only has to read.
import { randomUUID } from "node:crypto";
import { Kvorum } from "../client.mjs";

const CLIENTS = 4, CHANGES = 25;
const NODES = process.argv.length > 2 ? process.argv.slice(2)
  : [8080, 8081, 8082].map((port) => `http://127.0.0.1:${port}`);
const KEY = `cart/${randomUUID()}`;
const pause = (ms) => new Promise((done) => setTimeout(done, Math.random() * ms));

// Changes the document until the change is in it.
async function update(kvorum, id, change) {
  for (;;) {
    try {
      const found = await kvorum.get(KEY);
      const document = found ? JSON.parse(found) : { items: {}, changes: [] };
      if (document.changes.includes(id)) return;
      change(document);
      document.changes.push(id);
      const condition = found ? { "If-Match": found.etag } : { "If-None-Match": "*" };
      await kvorum.put(KEY, JSON.stringify(document), undefined, condition);
      return;
    } catch (error) {
      if (error.status === 400) throw error; // The request is wrong.
      await pause(30); // Somebody was faster (412), or it is unknown: read again.
    }
  }
}

let done = 0;
await Promise.all(Array.from({ length: CLIENTS }, async (_, number) => {
  const kvorum = new Kvorum(...NODES.slice(number % NODES.length), ...NODES.slice(0, number % NODES.length));
  for (let change = 0; change < CHANGES; change++) {
    await update(kvorum, `${number}-${change}`, (document) => {
      const item = `item-${change % 3}`;
      document.items[item] = (document.items[item] ?? 0) + 1;
    });
    if (++done === CLIENTS * CHANGES / 2) console.log("half");
  }
}));
const document = JSON.parse(await new Kvorum(...NODES).get(KEY));
const sum = Object.values(document.items).reduce((sum, count) => sum + count, 0);
if (sum !== CLIENTS * CHANGES || new Set(document.changes).size !== sum) {
  console.error(`lost or done twice: ${JSON.stringify(document)}`);
  process.exit(1);
}
console.log("ok");

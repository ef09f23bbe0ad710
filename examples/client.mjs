// A client of Kvorum in JavaScript (Node.js 18 or newer), without packages. README.md says what
// to keep when you copy it.
//
// const kvorum = new Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081");
// await kvorum.put("key", "value", { replicas: "2/3", ttl: 60 });

// The node did not do it. `problem.replicas` says what became of it at each replica.
export class Failed extends Error {
  constructor(status, problem) {
    super(`${status}: ${problem.detail} ${JSON.stringify(problem.replicas ?? [])}`);
    Object.assign(this, { status, problem });
  }
}

// A key is bytes, of which all may be escaped.
function entity(key, query) {
  const id = Buffer.from(key).toString("hex").replace(/../g, "%$&");
  return `/v0/entity?id=${id}${query ? `&${new URLSearchParams(query)}` : ""}`;
}

export class Kvorum {
  constructor(...nodes) {
    this.nodes = nodes;
    this.headers = { "Content-Type": "application/x-ndjson" }; // Only a batch needs it.
    const token = process.env.KVORUM_TOKEN;
    if (token) this.headers.Authorization = `Bearer ${token}`;
  }

  put(key, value, query) { return this.send("PUT", entity(key, query), value); }
  delete(key, query) { return this.send("DELETE", entity(key, query)); }
  get(key, query) { // Undefined if the key has no value.
    const read = this.send("GET", entity(key, query));
    return read.catch((error) => { if (error.status !== 404) throw error; });
  }

  // Asks a node. A read goes on to the next one if it gets no answer, or 503.
  async send(method, target, body) {
    const nodes = method === "GET" ? this.nodes : this.nodes.slice(0, 1);
    for (const [number, node] of nodes.entries()) {
      const isLast = number + 1 === nodes.length;
      const options = { method, body, headers: this.headers, signal: AbortSignal.timeout(15_000) };
      try {
        const answer = await fetch(node + target, options);
        if (answer.ok) return Buffer.from(await answer.arrayBuffer());
        const problem = await answer.json();
        if (isLast || answer.status !== 503) throw new Failed(answer.status, problem);
      } catch (error) {
        if (isLast || error instanceof Failed) throw error;
      }
    }
  }
}

// A client of Kvorum in JavaScript (Node.js 18 or newer), without packages. README.md says what
// to keep when you copy it.
//
// const kvorum = new Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081");
// await kvorum.put("key", "value", { replicas: "2/3", ttl: 60 });

function entity(key, query) { // A key is bytes, of which all may be escaped.
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
  get(key, query) { return this.send("GET", entity(key, query)); } // Undefined: it has no value.

  // Asks a node. A read goes on to the next one if it gets no answer, or 503. If a node has not
  // done it, the error has its status and its problem, whose `replicas` say what became of it at
  // each replica.
  async send(method, target, body) {
    let failed;
    for (const node of method === "GET" ? this.nodes : this.nodes.slice(0, 1)) {
      try {
        const signal = AbortSignal.timeout(15_000);
        const answer = await fetch(node + target, { method, body, headers: this.headers, signal });
        const content = Buffer.from(await answer.arrayBuffer());
        if (answer.ok || answer.status === 404) return answer.ok ? content : undefined;
        failed = new Error(`${answer.status}: ${content}`);
        Object.assign(failed, { status: answer.status, problem: JSON.parse(content) });
      } catch (error) { failed = error; }
      if (failed.status && failed.status !== 503) break;
    }
    throw failed;
  }
}

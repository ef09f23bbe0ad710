// A client of Kvorum in JavaScript (Node.js 18 or newer), without packages. README.md says what
// to keep when you copy it.
//
// const kvorum = new Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081");
// await kvorum.put("key", "value", { replicas: "2/3", ttl: 60 });

function entity(key, query) { // A key is bytes, of which all may be escaped.
  const id = Buffer.from(key).toString("hex").replace(/../g, "%$&");
  return `/v0/entity?id=${id}${query ? `&${new URLSearchParams(query)}` : ""}`;
}

const SUCCESS = { PUT: 201, DELETE: 202 }; // Of other requests 200.

export class Kvorum {
  constructor(...nodes) {
    this.nodes = nodes;
    this.first = 0;
    this.headers = { "Content-Type": "application/x-ndjson" }; // Only a batch needs it.
    const token = process.env.KVORUM_TOKEN;
    if (token) this.headers.Authorization = `Bearer ${token}`;
  }

  // With { "If-Match": etag } or { "If-None-Match": "*" } as headers it fails with status 412 if the
  // key has something else. What was read or written has its `etag`.
  put(key, value, query, headers) { return this.send("PUT", entity(key, query), value, headers); }
  delete(key, query, headers) { return this.send("DELETE", entity(key, query), undefined, headers); }
  get(key, query) { return this.send("GET", entity(key, query)); } // Undefined: it has no value.

  // Asks the node that answered last. If it fails, the next one is asked: always if nothing was
  // done, for a read also otherwise. If a node has not done it, the error has its status and its
  // problem, whose `replicas` say what became of it at each replica.
  async send(method, target, body, more) {
    let failed;
    const first = this.first;
    for (let number = first; number < first + this.nodes.length; number++) {
      const node = this.nodes[number % this.nodes.length];
      let isSent = true;
      try {
        const signal = AbortSignal.timeout(5_000);
        const headers = { ...this.headers, ...more };
        const answer = await fetch(node + target, { method, body, headers, signal });
        const content = Buffer.from(await answer.arrayBuffer());
        content.etag = answer.headers.get("etag");
        // A proxy, or another server, may answer 200 to anything.
        const namesVersion = answer.headers.has("kvorum-version") || !target.startsWith("/v0/entity?");
        if (answer.status === (SUCCESS[method] ?? 200) && namesVersion) return content;
        const isProblem = answer.headers.get("content-type")?.startsWith("application/problem+json");
        const problem = isProblem ? JSON.parse(content) : {};
        if (!problem.type?.startsWith("urn:kvorum:problem:"))
          throw Object.assign(new Error(`${node} is no Kvorum node`), { status: answer.status });
        if (problem.type.endsWith(":no-such-entity")) return undefined;
        failed = Object.assign(new Error(`${answer.status}: ${content}`), { status: answer.status, problem });
        if (![500, 503, 504].includes(answer.status)) break;
        isSent = answer.status !== 503 && problem.outcome !== "not-applied";
      } catch (error) {
        failed = error;
        isSent = !["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"].includes(error.cause?.code);
      }
      this.first = number + 1;
      if (isSent && method !== "GET") break;
    }
    throw failed;
  }
}

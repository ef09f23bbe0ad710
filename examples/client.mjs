// A client of Kvorum in JavaScript (Node.js 18 or newer), without packages. README.md beside it says what to keep.
export class Failed extends Error { // The nodes did not do it: the status, and the problem with its receipt.
  constructor(status, problem) {
    const receipt = (problem.replicas ?? []).map(({ url, outcome }) => `${url} ${outcome}`);
    super(`${status}: ${problem.detail} (${receipt.join(", ")})`);
    Object.assign(this, { status, problem, receipt });
  }
}

// A key is bytes, of which all may be escaped.
const escaped = (value) => Buffer.from(value).toString("hex").replace(/../g, "%$&");

// What fetch says if there was no connection.
const NOT_SENT = ["ECONNREFUSED", "EHOSTUNREACH", "ENOTFOUND", "UND_ERR_CONNECT_TIMEOUT"];

export class Kvorum {
  constructor(...nodes) { this.nodes = nodes; } // new Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081")
  put(id, value, query) { return this.send("PUT", "/v0/entity", { id, ...query }, value); } // { replicas: "2/3", ttl: "60" }
  delete(id, query) { return this.send("DELETE", "/v0/entity", { id, ...query }); }
  get(id, query) { // Undefined if the key has no value.
    return this.send("GET", "/v0/entity", { id, ...query }).catch((error) => { if (error.status !== 404) throw error; });
  }

  // Asks the nodes in turn. A write goes on to the next one only if it cannot have happened.
  async send(method, path, query, body) {
    const target = path + "?" + Object.entries(query).map(([name, value]) => `${name}=${escaped(value)}`).join("&");
    const headers = { "Content-Type": "application/x-ndjson" }; // Only a batch needs it.
    if (process.env.KVORUM_TOKEN) headers.Authorization = `Bearer ${process.env.KVORUM_TOKEN}`;
    let failure;
    for (const node of this.nodes) {
      try {
        const answer = await fetch(node + target, { method, body, headers, signal: AbortSignal.timeout(15000) });
        const content = Buffer.from(await answer.arrayBuffer());
        if (answer.ok) return content;
        failure = new Failed(answer.status, JSON.parse(content));
      } catch (error) {
        failure = error;
      }
      const cannotHaveHappened = failure.status === 503 || NOT_SENT.includes(failure.cause?.code);
      if (!cannotHaveHappened && (method !== "GET" || failure.status)) break;
    }
    throw failure;
  }
}

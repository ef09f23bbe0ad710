// Uses examples/client.mjs: node use.mjs FOLDER-OF-THE-CLIENT URL ...
const [folder, ...nodes] = process.argv.slice(2);
const { Kvorum } = await import(`${folder}/client.mjs`);
const kvorum = new Kvorum(...nodes);
const reversed = [...nodes].reverse(); // The node comes first that may be stopped.
const behindOther = new Kvorum(process.env.OTHER_SERVER, ...nodes);

function expect(found, wanted) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`expected ${wanted}, but it is ${found}`);
}

function failedWith(status) {
  return (error) => {
    if (!error.status) throw error;
    expect(error.status, status);
    return error;
  };
}

const key = Buffer.concat([Buffer.from("javascript €/+&%"), Buffer.from([0, 255])]);
const value = Buffer.from("\0 is a byte, too");
await new Kvorum(...reversed).put(key, value, { ttl: 60 });
for (const reader of [kvorum, new Kvorum(...reversed), behindOther]) {
  expect((await reader.get(key)).equals(value), true);
}
await behindOther.put(key, value); // It stays with the node that answered the read.
await kvorum.delete(key);
expect(await kvorum.get(key), undefined);
const operations = [{ op: "put", key: "js", value: "1" }, { op: "get", key: "js" }, { op: "delete", key: "js" }];
const lines = operations.map((operation) => JSON.stringify(operation) + "\n").join("");
const sent = await kvorum.send("POST", "/v0/batch", lines);
const answers = sent.toString().trim().split("\n").map((line) => JSON.parse(line));
expect([...answers.map((answer) => answer.status), answers[1].value], [201, 200, 202, "1"]);
expect((await kvorum.get("").catch(failedWith(400)))?.status, 400);
const other = new Kvorum(process.env.OTHER_SERVER);
for (const ask of [() => other.put(key, value), () => other.get(key), () => other.delete(key)]) {
  const message = await ask().then(() => "another server was taken for a node", (error) => error.message);
  expect(message, `${process.env.OTHER_SERVER} is no Kvorum node`);
}
const failed = await kvorum.put(key, value, { replicas: `${nodes.length}/${nodes.length}` }).catch(failedWith(504));
for (const { url, outcome } of failed?.problem?.replicas ?? []) console.log(url, outcome);
console.log("ok");

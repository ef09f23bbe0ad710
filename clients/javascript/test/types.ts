// What a program in TypeScript sees. It is compiled, not run.

import { Client, ConflictError, KvorumError, UnknownOutcomeError, del, get, put, touch } from "kvorum";
import type { Aggregates, ClientOptions, Entity, Operation, Result } from "kvorum";

export async function use(options: ClientOptions): Promise<bigint | undefined> {
  const client = new Client({ ...options, rounds: 2, traceparent: () => undefined });
  const { version, etag }: { version: bigint; etag: string | undefined } = await client.put("k", new Uint8Array(1));
  const entity: Entity | undefined = await client.get("k", { ifNoneMatch: etag ?? "*", ack: 2, from: 3 });
  const operations: Operation[] = [get("k"), put("k", "v", { ttl: 1, ifMatch: version }), touch("k"), del("k")];
  const results: Result[] = await client.batch(operations);
  for await (const { key, expires } of client.scan({ prefix: "k", scope: "node" })) console.log(key.toString(), expires?.getTime());
  const { keys, groups }: Aggregates = await client.aggregate([{ sum: "value.total" }, { max: "version" }], { by: ["key"] });
  if (groups[0]?.aggregates[0]?.value === 1n) console.log(keys.toFixed(), await client.count({ where: "size > 1" }));
  // @ts-expect-error: there is no such function.
  await client.aggregate([{ mean: "value.total" }]);
  try {
    await client.delete("k", { ifMatch: "*" });
  } catch (error) {
    if (error instanceof ConflictError || error instanceof UnknownOutcomeError) return error.version;
    if (error instanceof KvorumError) console.log(error.attempts[0]?.node, results[0]?.error?.status);
  }
  // @ts-expect-error: a value is bytes or text.
  await client.put("k", 5);
  // @ts-expect-error: it may be undefined.
  return entity.version;
}

"""Uses the client that openapi-python-client generates: python3 generated.py URL ...

Each operation on entities, the scans with their count, a batch, and the pages of a node."""
import io, json, sys
from kvorum_client import AuthenticatedClient
from kvorum_client.api.entities import (delete_entity, get_entity, head_entity, post_batch,
                                        put_entity)
from kvorum_client.api.nodes import get_cluster, get_live, get_metrics, get_ready, get_replicas, get_status
from kvorum_client.api.scans import get_entities
from kvorum_client.models import KeyReplicas, Problem
from kvorum_client.types import File

client = AuthenticatedClient(base_url=sys.argv[1], token="none")
# Lines have to be named: the default of a scan is bytes.
lines_client = client.with_headers({"Accept": "application/x-ndjson"})

def expect(found, wanted):
    if found != wanted:
        sys.exit(f"expected {wanted}, but it is {found}")

def file(content):
    return File(payload=io.BytesIO(content))

def lines(answer):
    expect(answer.status_code, 200)
    return [json.loads(line) for line in answer.content.splitlines()]

value = b"\x00 is a byte, too \xff"
key = "generated/\u20ac &+/%"
written = put_entity.sync_detailed(client=client, id=key, body=file(value), ttl=600)
expect(written.status_code, 201)
tag = written.headers["ETag"]
read = get_entity.sync_detailed(client=client, id=key)
expect((read.status_code, read.parsed.payload.read(), read.headers["ETag"]), (200, value, tag))
expect(get_entity.sync_detailed(client=client, id=key, if_none_match=tag).status_code, 304)
head = head_entity.sync_detailed(client=client, id=key)
expect((head.status_code, head.headers["Kvorum-Version"]), (200, written.headers["Kvorum-Version"]))
touched = put_entity.sync_detailed(client=client, id=key, body=file(b""), touch=True, if_match=tag)
expect(touched.status_code, 201)
conflict = put_entity.sync_detailed(client=client, id=key, body=file(b"new"), if_none_match="*")
expect((conflict.status_code, isinstance(conflict.parsed, Problem)), (412, True))
expect(conflict.parsed.type_, "urn:kvorum:problem:other-version")
# A batch: it creates what the scans below read.
keys = [f"generated/scan/{number}" for number in range(20)]
operations = [{"op": "put", "key": each, "value": each} for each in keys]
operations += [{"op": "get", "key": keys[0]}, {"op": "get", "key": "generated/none"}]
batch = "".join(json.dumps(operation) + "\n" for operation in operations)
answers = lines(post_batch.sync_detailed(client=client, body=file(batch.encode())))
expect([answer["status"] for answer in answers], [201] * len(keys) + [200, 404])
expect(answers[len(keys)]["value"], keys[0])
# Scans: lines with and without values, of the cluster and of one level; plain bytes; a count.
scan = {"prefix": "generated/scan/", "scope": "cluster"}
found = lines(get_entities.sync_detailed(client=lines_client, **scan))
expect(sorted((line["key"], line["value"]) for line in found), sorted((each, each) for each in keys))
found = lines(get_entities.sync_detailed(client=client, values="omit", limit=3, **scan))
expect([line["key"] for line in found], sorted(keys)[:3])
found = lines(get_entities.sync_detailed(client=client, prefix="generated/scan/", delimiter="1", scope="cluster"))
expect([line for line in found if "prefix" in line], [{"prefix": "generated/scan/1"}])
plain = get_entities.sync_detailed(client=client, **scan)
expect(plain.parsed.payload.read(), b"".join(f"{each}\n{each}".encode() for each in sorted(keys)))
count = get_entities.sync_detailed(client=client, count="only", **scan)
expect(json.loads(count.parsed.payload.read())["count"], len(keys))
expect(get_entities.sync_detailed(client=client, prefix="a", start="a").parsed.type_, "urn:kvorum:problem:bad-parameter")
# Pages of a node.
replicas = get_replicas.sync(client=client, id=key)
expect((isinstance(replicas, KeyReplicas), len(replicas.replicas)), (True, len(sys.argv) - 1))
expect(get_status.sync(client=client).state, "serving")
expect(len(get_cluster.sync(client=client).nodes), len(sys.argv) - 1)
expect((get_live.sync(client=client).state, get_ready.sync(client=client).state), ("live", "ready"))
expect(get_metrics.sync_detailed(client=client).status_code, 200)
for each in (key, *keys):
    expect(delete_entity.sync_detailed(client=client, id=each).status_code, 202)
gone = get_entity.sync_detailed(client=client, id=key)
expect((gone.status_code, gone.parsed.type_), (404, "urn:kvorum:problem:no-such-entity"))
print("ok")

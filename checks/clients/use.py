"""Uses examples/client.py: python3 use.py FOLDER-OF-THE-CLIENT URL ..."""
import json, os, sys
sys.path.insert(0, sys.argv[1])
from client import Failed, Kvorum

nodes = sys.argv[2:]
kvorum, all_of = Kvorum(*nodes), f"{len(nodes)}/{len(nodes)}"
backwards = Kvorum(*nodes[::-1])  # It asks the node first that may be stopped.
behind_other = Kvorum(os.environ["OTHER_SERVER"], *nodes)

def expect(found, wanted):
    if found != wanted:
        sys.exit(f"expected {wanted}, but it is {found}")

key, value = b"python \xe2\x82\xac/+&%\x00\xff", b"\x00 is a byte, too"
backwards.put(key, value, ttl=60)
expect(kvorum.get(key), value)
expect(Kvorum(*nodes[::-1]).get(key), value)
expect(behind_other.get(key), value)
behind_other.put(key, value)  # It stays with the node that answered the read.
kvorum.delete(key)
expect(kvorum.get(key), None)
operations = [{"op": "put", "key": "python", "value": "1"}, {"op": "get", "key": "python"},
              {"op": "delete", "key": "python"}]
lines = "".join(json.dumps(operation) + "\n" for operation in operations)
answers = kvorum.send("POST", lines.encode(), path="/v0/batch").splitlines()
answers = [json.loads(line) for line in answers]
expect([answer["status"] for answer in answers] + [answers[1]["value"]], [201, 200, 202, "1"])
for ask in (Kvorum.put, Kvorum.get, Kvorum.delete):
    try:
        ask(Kvorum(os.environ["OTHER_SERVER"]), key, *([value] if ask is Kvorum.put else []))
        sys.exit("another server was taken for a node")
    except Failed as failed:
        expect(failed.args[0], 200)
try:
    kvorum.get(b"")
    sys.exit("a request that is wrong was answered")
except Failed as failed:
    expect(failed.args[0], 400)
try:
    kvorum.put(key, value, replicas=all_of)
except Failed as failed:
    status, problem = failed.args
    expect(status, 504)
    for replica in problem["replicas"]:
        print(replica["url"], replica["outcome"])
print("ok")

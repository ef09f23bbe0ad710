"""A client in Python, without packages: python3 examples/client.py [URL ...]"""
import json, sys, urllib.error, urllib.parse, urllib.request

nodes = sys.argv[1:] or ["http://127.0.0.1:8080"]
majority, of = len(nodes) // 2 + 1, len(nodes)

def send(method, path, body=None, headers={}):
    """Asks the first node, and the next one if a node cannot be reached."""
    for node in nodes:
        try:
            request = urllib.request.Request(node + path, body, headers, method=method)
            with urllib.request.urlopen(request, timeout=15) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read()
        except OSError as error:
            print(f"{node}: {error}: asking the next node", file=sys.stderr)
    sys.exit("no node can be reached")

def entity(key, ack):  # A key is bytes: all but letters, digits and -._~ are escaped.
    return f"/v0/entity?id={urllib.parse.quote(key, safe='')}&ack={ack}&from={of}"

def expect(answer, wanted):
    if answer != wanted:
        sys.exit(f"expected {wanted}, but the answer is {answer}")

key, value = b"python \xe2\x82\xac/+&%\x00\xff", b"\x00 is a byte, too"
expect(send("PUT", entity(key, majority), value), (201, b""))
expect(send("GET", entity(key, majority)), (200, value))
expect(send("DELETE", entity(key, majority)), (202, b""))
expect(send("GET", entity(key, majority))[0], 404)

operations = [{"op": "put", "key": "python", "value": "1"}, {"op": "get", "key": "python"}, {"op": "delete", "key": "python"}]
lines = "".join(json.dumps(operation) + "\n" for operation in operations).encode()
status, body = send("POST", f"/v0/batch?ack={majority}&from={of}", lines, {"Content-Type": "application/x-ndjson"})
answers = [json.loads(line) for line in body.splitlines()]
expect((status, [answer["status"] for answer in answers], answers[1].get("value")), (200, [201, 200, 202], "1"))

status, body = send("PUT", entity(key, of), value)  # All nodes must answer.
if status == 504:  # The receipt says what became of the write at each of them.
    for replica in json.loads(body)["replicas"]:
        print(replica["url"], replica["outcome"])
print("ok")

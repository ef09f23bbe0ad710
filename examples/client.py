"""A client of Kvorum in Python, without packages. README.md says what to keep when you copy it.

kvorum = Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081")
kvorum.put(b"key", b"value", replicas="2/3", ttl=60)
"""
import contextlib, http.client, json, os
from urllib import parse

SUCCESS = {"PUT": 201, "DELETE": 202}  # Of other requests 200.
CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}

class Failed(Exception):
    """The node did not do it. Its arguments are the status and the problem, whose `replicas` say
    what became of it at each replica."""

class Value(bytes):
    """The content of an answer. What was read also has its `etag` and its `version`."""
    etag, version = None, None

class Kvorum:
    def __init__(self, *nodes):
        self.nodes, self.first = nodes, 0
        self.headers = {"Content-Type": "application/x-ndjson"}  # Only a batch needs it.
        if token := os.environ.get("KVORUM_TOKEN"):
            self.headers["Authorization"] = f"Bearer {token}"

    def put(self, key, value, headers={}, **query):
        """With {"If-Match": etag} or {"If-None-Match": "*"} as `headers` it fails with status 412 if
        the key has something else. A write that took effect has its new etag and version."""
        return self.send("PUT", value, headers=headers, id=key, **query)

    def delete(self, key, headers={}, **query):
        return self.send("DELETE", headers=headers, id=key, **query)

    def get(self, key, **query):
        """None if the key has no value."""
        return self.send("GET", id=key, **query)

    def send(self, method, body=None, path="/v0/entity", headers={}, **query):
        """Asks the node that answered last. If it fails, the next one is asked: always if nothing
        was done, for a read also otherwise."""
        target = f"{path}?{parse.urlencode(query)}"  # A key is bytes, which this escapes.
        for number in range(self.first, self.first + len(self.nodes)):
            node, is_sent = self.nodes[number % len(self.nodes)], False
            try:
                url = parse.urlsplit(node)
                with contextlib.closing(CONNECTIONS[url.scheme](url.netloc, timeout=1)) as connection:
                    connection.connect()
                    connection.sock.settimeout(5)
                    is_sent = True
                    connection.request(method, target, body, {**self.headers, **headers})
                    answer = connection.getresponse()
                    content = Value(answer.read())
                    content.etag = answer.headers["ETag"]
                    content.version = answer.headers["Kvorum-Version"]
                # A proxy, or another server, may answer 200 to anything.
                names_version = "Kvorum-Version" in answer.headers or path != "/v0/entity"
                if answer.status == SUCCESS.get(method, 200) and names_version:
                    return content
                is_problem = answer.headers.get_content_type() == "application/problem+json"
                problem = json.loads(content) if is_problem else {}
                if not problem.get("type", "").startswith("urn:kvorum:problem:"):
                    raise Failed(answer.status, {"detail": f"{node} is no Kvorum node"})
                if problem["type"].endswith(":no-such-entity"):
                    return None
                failed = Failed(answer.status, problem)
                if answer.status not in (500, 503, 504):
                    break
                is_sent = answer.status != 503 and problem.get("outcome") != "not-applied"
            except (OSError, ValueError, http.client.HTTPException, Failed) as failure:
                failed = failure
            self.first = number + 1
            if is_sent and method != "GET":
                break
        raise failed

"""A client of Kvorum in Python, without packages. README.md says what to keep when you copy it.

kvorum = Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081")
kvorum.put(b"key", b"value", replicas="2/3", ttl=60)
"""
import http.client, json, os
from urllib import error, parse, request

SUCCESS = {"PUT": 201, "DELETE": 202}  # Of other requests 200.

class Failed(Exception):
    """The node did not do it. Its arguments are the status and the problem, whose `replicas` say
    what became of it at each replica."""

class Kvorum:
    def __init__(self, *nodes):
        self.nodes, self.opener = nodes, request.build_opener(request.ProxyHandler({}))
        self.headers = {"Content-Type": "application/x-ndjson"}  # Only a batch needs it.
        if token := os.environ.get("KVORUM_TOKEN"):
            self.headers["Authorization"] = f"Bearer {token}"

    def put(self, key, value, **query):
        self.send("PUT", value, id=key, **query)

    def delete(self, key, **query):
        self.send("DELETE", id=key, **query)

    def get(self, key, **query):
        """None if the key has no value."""
        return self.send("GET", id=key, **query)

    def send(self, method, body=None, path="/v0/entity", **query):
        """Asks a node. A read goes on to the next one if it gets no answer, or 503."""
        for node in self.nodes if method == "GET" else self.nodes[:1]:
            url = f"{node}{path}?{parse.urlencode(query)}"  # A key is bytes, which this escapes.
            try:
                asked = request.Request(url, body, self.headers, method=method)
                answer = self.opener.open(asked, timeout=15)
                # A proxy, or another server, may answer 200 to anything.
                names_version = "Kvorum-Version" in answer.headers or path != "/v0/entity"
                if answer.status != SUCCESS.get(method, 200) or not names_version:
                    raise Failed(answer.status, {"detail": f"{node} is no Kvorum node"})
                return answer.read()
            except error.HTTPError as refused:
                problem = json.load(refused)
                if problem["type"].endswith(":no-such-entity"):
                    return None
                failed = Failed(refused.code, problem)
                if refused.code != 503:
                    break
            except (OSError, http.client.HTTPException) as silence:
                failed = silence
        raise failed

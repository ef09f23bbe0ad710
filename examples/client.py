"""A client of Kvorum in Python, without packages. README.md says what to keep when you copy it.

kvorum = Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081")
kvorum.put(b"key", b"value", replicas="2/3", ttl=60)
"""
import json, os, ssl
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

class Failed(Exception):
    """The node did not do it: the status, and what became of it at each replica."""
    def __init__(self, status, problem):
        self.status, self.replicas = status, problem.get("replicas", [])
        super().__init__(f"{status}: {problem.get('detail')} {self.replicas}")

class Kvorum:
    def __init__(self, *nodes, timeout=15):
        tls = ssl.create_default_context(cafile=os.environ.get("KVORUM_CA"))
        self.opener = build_opener(ProxyHandler({}), HTTPSHandler(context=tls))
        self.nodes, self.timeout = nodes, timeout
        self.headers = {"Content-Type": "application/x-ndjson"}  # Only a batch needs it.
        if token := os.environ.get("KVORUM_TOKEN"):
            self.headers["Authorization"] = f"Bearer {token}"

    def put(self, key, value, **query):
        self.send("PUT", value, id=key, **query)

    def delete(self, key, **query):
        self.send("DELETE", id=key, **query)

    def get(self, key, **query):
        """None if the key has no value."""
        try:
            return self.send("GET", id=key, **query)
        except Failed as failed:
            if failed.status != 404:
                raise

    def send(self, method, body=None, path="/v0/entity", **query):
        """Asks a node. A read goes on to the next one if it gets no answer, or 503."""
        for number, node in enumerate(self.nodes, 1):
            is_last = method != "GET" or number == len(self.nodes)
            url = f"{node}{path}?{urlencode(query)}"  # A key is bytes, which this escapes.
            asked = Request(url, body, self.headers, method=method)
            try:
                with self.opener.open(asked, timeout=self.timeout) as answer:
                    return answer.read()
            except HTTPError as error:
                if is_last or error.code != 503:
                    raise Failed(error.code, json.load(error)) from None
            except (OSError, HTTPException):
                if is_last:
                    raise

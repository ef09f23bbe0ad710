"""A client of Kvorum in Python, without packages. README.md beside it says what to keep when you copy it."""
import http.client, json, os, ssl, urllib.parse

class Failed(Exception):
    """The nodes did not do it: the status, and what became of it at each replica."""
    def __init__(self, status, problem):
        self.status, self.replicas = status, problem.get("replicas", [])
        super().__init__(f"{status}: {problem.get('detail')} {self.replicas}")

class Kvorum:
    def __init__(self, *nodes, timeout=15):  # Kvorum("http://127.0.0.1:8080", "http://127.0.0.1:8081")
        self.nodes, self.timeout = [urllib.parse.urlsplit(node) for node in nodes], timeout
        self.tls = ssl.create_default_context(cafile=os.environ.get("KVORUM_CA"))
        self.headers = {"Content-Type": "application/x-ndjson"}  # Only a batch needs it.
        if token := os.environ.get("KVORUM_TOKEN"):
            self.headers["Authorization"] = f"Bearer {token}"

    def put(self, key, value, **query):  # put(b"key", b"value", replicas="2/3", ttl=60)
        self.send("PUT", "/v0/entity", {"id": key, **query}, value)

    def delete(self, key, **query):
        self.send("DELETE", "/v0/entity", {"id": key, **query})

    def get(self, key, **query):  # None if the key has no value
        try:
            return self.send("GET", "/v0/entity", {"id": key, **query})
        except Failed as failed:
            if failed.status != 404:
                raise

    def send(self, method, path, query, body=None):
        """Asks the nodes in turn. A write goes on to the next one only if it cannot have happened."""
        for node in self.nodes:
            connection, may_have_happened = http.client.HTTPConnection(node.netloc, timeout=self.timeout), False
            if node.scheme == "https":
                connection = http.client.HTTPSConnection(node.netloc, timeout=self.timeout, context=self.tls)
            try:
                connection.connect()
                may_have_happened = method != "GET"
                target = path + "?" + urllib.parse.urlencode(query)  # A key is bytes, which it escapes.
                connection.request(method, target, body, self.headers)
                answer = connection.getresponse()
                content = answer.read()
                if answer.status < 300:
                    return content
                failure = Failed(answer.status, json.loads(content))
                if answer.status != 503:  # With 503 the node has done nothing.
                    raise failure
            except (OSError, http.client.HTTPException) as error:
                failure = error
                if may_have_happened:
                    raise
            finally:
                connection.close()
        raise failure

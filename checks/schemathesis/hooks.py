"""What OpenAPI cannot say of parameters: how they depend on each other and on the cluster.

Each request that the schema allows is corrected here, so that a node must accept it.
Requests that the schema forbids are sent as they are.
"""

import json

import schemathesis

NODES = 3
LINES_MAX = 20
DELIMITER_CHARACTERS_MAX = 4  # It has 16 bytes at most.


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    """The document knows lines of JSON as one string."""
    return value if isinstance(value, bytes) else str(value).encode()


def text(body):
    """A generated body as text of the same length."""
    return body if isinstance(body, str) else body.decode("latin-1")


def batch(seed):
    """Some operations, as many and as long as a generated text is."""
    operations = []
    for number, character in enumerate(seed[:LINES_MAX] or "x"):
        key = f"{character}{number % 3}"
        operations.append({"op": "put", "key": key, "value": seed, "ttl": number + 1})
        operations.append({"op": "get", "key": key})
        operations.append({"op": "delete", "key_base64": "/w=="})
    return "".join(json.dumps(operation) + "\n" for operation in operations)


def correct_replicas(query):
    """`1 <= ack <= from <= number of nodes`, in one spelling."""
    for name in ("ack", "from"):
        if name in query:
            query[name] = (int(query[name]) - 1) % NODES + 1
    if "ack" in query:
        query["from"] = max(query["ack"], query.get("from", NODES))
    if "replicas" in query:
        if "ack" in query or "from" in query:
            del query["replicas"]
        else:
            query["replicas"] = "2/3"


def correct_condition(case):
    """A condition needs a majority, and what keeps its value has no body."""
    # An empty list of tags is none.
    for name in [name for name, text in (case.headers or {}).items() if name.lower().startswith("if-") and not text]:
        del case.headers[name]
    names = {name.lower() for name in case.headers or {}}
    is_touch = case.query.get("touch") in (True, "true")
    if is_touch:
        case.body = b""
    if is_touch or names & {"if-match", "if-none-match"}:
        if "ack" in case.query:
            case.query["from"] = case.query["ack"]


def correct_range(query):
    """Either a prefix, or a start and perhaps an end; replicas only of the whole cluster."""
    if query.get("scope") != "cluster":
        for name in ("ack", "from", "replicas"):
            query.pop(name, None)
    if "delimiter" in query:
        query.pop("count", None)
        query["delimiter"] = query["delimiter"][:DELIMITER_CHARACTERS_MAX]
    if "prefix" in query:
        query.pop("start", None)
        query.pop("end", None)
    else:
        query.setdefault("start", "a")


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Generated clients get some JSON as bytes, and problems without what each answer can be, so
    the document calls them that. They are checked as what they are."""
    operations = [operation for path in raw_schema["paths"].values() for operation in path.values()]
    answers = [operation["responses"] for operation in operations]
    for response in (each for some in [raw_schema["components"]["responses"], *answers] for each in some.values()):
        for media, content in response.get("content", {}).items():
            if media in ("application/json", "application/problem+json") and "x-json-schema" in content:
                content["schema"] = content["x-json-schema"]
    # Generators know no unsigned numbers; a node takes them up to their maximum.
    for parameter in (each for operation in operations for each in operation.get("parameters", [])):
        if parameter.get("schema", {}).get("format") == "int64":
            del parameter["schema"]["format"]


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.operation.path == "/debug/profile" and str(case.query.get("seconds", "10")).isdigit():
        # Also where something else is wrong that a node does not look at.
        if 1 <= int(case.query.get("seconds", 10)) <= 60:
            case.query["seconds"] = 1
    if case.operation.path == "/" and case.method.upper() not in ("GET", "HEAD"):
        # To others the path is unknown, whatever the method.
        case.headers = {**(case.headers or {}), "Accept": "text/html"}
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.operation.path == "/v0/batch" and isinstance(case.body, (bytes, str)):
        case.body = batch(text(case.body))
    if case.operation.path in ("/v0/entity", "/v0/batch"):
        correct_replicas(case.query)
    if case.method.upper() in ("PUT", "DELETE") and case.operation.path == "/v0/entity":
        correct_condition(case)
    if case.operation.path == "/v0/entities":
        correct_replicas(case.query)
        correct_range(case.query)
    if case.operation.path == "/":
        # The console is there for those who name HTML.
        case.headers = {**(case.headers or {}), "Accept": "text/html"}
    if "peer" in case.query:
        case.query["peer"] = "node-2"

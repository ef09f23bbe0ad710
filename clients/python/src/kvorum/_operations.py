"""The operations, once for both clients. Their arguments are described at `Client`."""

from __future__ import annotations

import json
from typing import Any, AsyncGenerator, Dict, List, Optional, Sequence

from ._aggregate import Aggregates, Function, aggregates_of, question_of
from ._answers import failure, foreign, has_type, is_no_such_entity, of_problem, problem_type, version_number
from ._caller import Caller, Exchange, Request
from ._errors import AttemptError, Outcome, error_of
from ._http import Head, Limit
from ._model import (
    Bytes,
    Entity,
    Get,
    Match,
    Operation,
    Replica,
    Result,
    Written,
    as_bytes,
    as_key,
    escape,
    etag_of,
    exclude_both,
    instant,
    line_of,
    seconds,
    take_bytes,
)
from ._nodes import Node
from ._scan import Range, Scan

LINES = "application/x-ndjson"
BATCH_BYTES_MAX = 16 << 20


class Options:
    """What every operation takes."""

    def __init__(
        self,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> None:
        if timeout is not None and timeout <= 0:
            raise ValueError("a timeout is more than 0 seconds")
        self.timeout = timeout
        self.traceparent = traceparent
        self.pair = {
            name: str(number) for name, number in (("ack", ack), ("from", from_)) if number is not None
        }


class Operations:
    """What a client does, over any transport."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def read(
        self, method: str, key: Bytes, if_none_match: Optional[str], options: Options
    ) -> Optional[Entity]:
        request = self._request(method, "/v0/entity", {"id": as_key(key)}, options)
        if if_none_match is not None:
            request.fields["If-None-Match"] = etag_of(if_none_match)

        async def attempt(node: Node, left: float) -> Optional[Entity]:
            try:
                head, body = await self._caller.fetch(node, request, left, (200, 304))
            except AttemptError as error:
                if is_no_such_entity(error):
                    return None
                raise
            expires, is_same = instant(head.fields.get("kvorum-expires")), head.status == 304
            version, etag = _version(node, head), head.fields.get("etag")
            return Entity(as_key(key), body, version, etag, expires, is_same)

        return await self._caller.ask(attempt, True, self._seconds(options))

    async def put(
        self,
        key: Bytes,
        value: Bytes,
        ttl: Optional[int],
        if_match: Optional[Match],
        if_absent: bool,
        options: Options,
    ) -> Written:
        if if_absent:
            exclude_both(if_match)
        fields = {"If-None-Match": "*"} if if_absent else _if_match(if_match)
        return await self._write("PUT", key, as_bytes(value), _ttl(ttl), fields, options)

    async def touch(
        self, key: Bytes, ttl: Optional[int], if_match: Optional[Match], options: Options
    ) -> Written:
        return await self._write("PUT", key, b"", {"touch": b"true", **_ttl(ttl)}, _if_match(if_match), options)

    async def delete(self, key: Bytes, if_match: Optional[Match], options: Options) -> Written:
        return await self._write("DELETE", key, None, {}, _if_match(if_match), options)

    async def _write(
        self,
        method: str,
        key: Bytes,
        body: Optional[bytes],
        query: Dict[str, bytes],
        fields: Dict[str, str],
        options: Options,
    ) -> Written:
        request = self._request(method, "/v0/entity", {"id": as_key(key), **query}, options)
        request.is_read, request.body = False, body
        request.fields.update(fields)
        success = (202,) if method == "DELETE" else (201,)

        async def attempt(node: Node, left: float) -> Written:
            head, _ = await self._caller.fetch(node, request, left, success)
            return Written(_version(node, head), head.fields.get("etag"))

        return await self._caller.ask(attempt, False, self._seconds(options))

    async def batch(self, operations: Sequence[Operation], options: Options) -> List[Result]:
        lines = [json.dumps(line_of(operation), separators=(",", ":")) for operation in operations]
        if not lines:
            return []
        request = self._request("POST", "/v0/batch", {}, options)
        request.body = "\n".join([*lines, ""]).encode()
        if len(request.body) > BATCH_BYTES_MAX:
            raise ValueError(f"a batch has at most {BATCH_BYTES_MAX} bytes, not {len(request.body)}")
        request.fields["Content-Type"] = LINES
        request.is_read = all(isinstance(operation, Get) for operation in operations)

        async def attempt(node: Node, left: float) -> List[Result]:
            exchange = await self._caller.send(node, request, Limit(left), left)
            try:
                return await self._results(exchange, operations, request.is_read)
            finally:
                exchange.end()

        return await self._caller.ask(attempt, request.is_read, self._seconds(options))

    async def _results(
        self, exchange: Exchange, operations: Sequence[Operation], is_read: bool
    ) -> List[Result]:
        if exchange.head.status != 200 or not has_type(exchange.head, LINES):
            raise failure(exchange.node.url, exchange.head, await exchange.read())
        answer, body, broken = bytearray(), exchange.body(), None
        try:
            while (piece := await exchange.next(body)) is not None:
                answer += piece
        except AttemptError as error:
            if is_read:
                raise
            broken = error
            exchange.node.has_failed(error)
        lines = bytes(answer).split(b"\n")[:-1]
        node = exchange.node.url
        given = zip(operations, lines)
        results = [_result(node, json.loads(line), isinstance(each, Get)) for each, line in given]
        broken = broken or AttemptError(node, "the answer has too few lines", Outcome.UNKNOWN)
        for each in operations[len(results) :]:
            results.append(Result(0, error=error_of(broken, [broken], isinstance(each, Get))))
        return results

    def scan(
        self, keys: Range, limit: Optional[int], values: bool, options: Options
    ) -> AsyncGenerator[Entity, None]:
        if limit is not None and limit < 1:
            raise ValueError(f"limit is at least 1, not {limit}")
        template = self._request("GET", "/v0/entities", {}, options)
        seconds = options.timeout or self._caller.settings.scan_timeout
        return Scan(self._caller, template, keys, limit, values, options.pair, seconds).entities()

    async def count(self, keys: Range, options: Options) -> int:
        if keys.is_empty():
            return 0
        query = {**keys.query(), "count": b"only"}
        request = self._request("GET", "/v0/entities", query, options, keys.takes_pair())
        silence = options.timeout or self._caller.settings.scan_timeout

        async def attempt(node: Node, left: float) -> int:
            limit = Limit(silence, is_silence=True)
            head, body = await self._caller.fetch(node, request, silence, (200,), limit)
            return int(_json(node, head, body, "application/json")["count"])

        return await self._caller.ask(attempt, True, None, keys.nodes(self._caller.nodes))

    async def aggregate(
        self, keys: Range, functions: Sequence[Function], by: Sequence[str], options: Options
    ) -> Aggregates:
        request = self._request("POST", "/v0/aggregate", {}, options, False)
        request.body = json.dumps(question_of(keys, functions, by, options.pair)).encode()
        request.fields["Content-Type"] = "application/json"
        silence = options.timeout or self._caller.settings.scan_timeout

        async def attempt(node: Node, left: float) -> Aggregates:
            limit = Limit(silence, is_silence=True)
            head, body = await self._caller.fetch(node, request, silence, (200,), limit)
            try:
                return aggregates_of(_json(node, head, body, "application/json"))
            except (KeyError, TypeError, ValueError):
                raise foreign(node.url, head) from None

        return await self._caller.ask(attempt, True, None, keys.nodes(self._caller.nodes))

    async def replicas(self, key: Bytes, options: Options) -> List[Replica]:
        page = await self._page("/v0/replicas", {"id": as_key(key)}, options)
        return [Replica(str(each["name"]), str(each["url"])) for each in page["replicas"]]

    async def status(self, options: Options) -> Dict[str, Any]:
        return await self._page("/v0/status", {}, options)

    async def _page(self, path: str, query: Dict[str, bytes], options: Options) -> Dict[str, Any]:
        request = self._request("GET", path, query, options)

        async def attempt(node: Node, left: float) -> Dict[str, Any]:
            head, body = await self._caller.fetch(node, request, left, (200,))
            return _json(node, head, body, "application/json")

        return await self._caller.ask(attempt, True, self._seconds(options))

    def _request(
        self, method: str, path: str, query: Dict[str, bytes], options: Options, has_pair: bool = True
    ) -> Request:
        pairs = [f"{name}={escape(value)}" for name, value in query.items()]
        if has_pair:
            pairs += [f"{name}={number}" for name, number in options.pair.items()]
        target = path + ("?" + "&".join(pairs) if pairs else "")
        return Request(method, target, True, self._caller.trace(options.traceparent))

    def _seconds(self, options: Options) -> float:
        return options.timeout or self._caller.settings.timeout


def _if_match(match: Optional[Match]) -> Dict[str, str]:
    return {} if match is None else {"If-Match": etag_of(match)}


def _ttl(ttl: Optional[int]) -> Dict[str, bytes]:
    return {} if ttl is None else {"ttl": str(seconds(ttl)).encode()}


def _version(node: Node, head: Head) -> int:
    version = version_number(head.fields.get("kvorum-version"))
    if version is None:
        raise foreign(node.url, head)
    return version


def _json(node: Node, head: Head, body: bytes, wanted: str) -> Dict[str, Any]:
    try:
        page = json.loads(body) if has_type(head, wanted) else None
    except ValueError:
        page = None
    if not isinstance(page, dict):
        raise foreign(node.url, head)
    return page


def _result(node: str, line: Dict[str, Any], is_get: bool) -> Result:
    status, problem = int(line["status"]), line.get("problem")
    version = version_number(line.get("version"))
    if problem is None:
        return Result(status, version, take_bytes(line, "value"), instant(line.get("expires")))
    if status == 404 and problem_type(problem) == "no-such-entity":
        return Result(status, version)
    failed = of_problem(node, status, problem, version=line.get("version"))
    return Result(status, version, error=error_of(failed, [failed], is_get))

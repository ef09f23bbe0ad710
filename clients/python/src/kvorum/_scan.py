"""Scans that continue behind their last key when a stream breaks."""

from __future__ import annotations

import json
from typing import Any, AsyncGenerator, Dict, List, Optional

from ._answers import failure, foreign, has_type, version_number
from ._caller import Caller, Exchange, Request
from ._errors import AttemptError, Outcome, error_of
from ._http import Limit
from ._model import KEY_BYTES_MAX, Bytes, Entity, as_key, escape, instant, put_bytes, take_bytes
from ._nodes import Node, Nodes

LINES = "application/x-ndjson"
LINE_BYTES_MAX = 128 << 20


class Range:
    """The entities that a scan covers: those from `start` to below `end` that match the condition
    `where`, of the cluster or of a node."""

    def __init__(
        self,
        start: Optional[Bytes],
        end: Optional[Bytes],
        prefix: Optional[Bytes],
        scope: str,
        where: Optional[str],
    ) -> None:
        if prefix is not None and (start is not None or end is not None):
            raise ValueError("prefix excludes start and end")
        if scope not in ("cluster", "node"):
            raise ValueError(f"scope is cluster or node, not {scope!r}")
        self.scope = scope
        self.where = where
        self.start = b"\0" if start is None else as_key(start, KEY_BYTES_MAX + 1)
        self.end = None if end is None else as_key(end, KEY_BYTES_MAX + 1)
        if prefix is not None:
            self.start = as_key(prefix)
            self.end = end_of_prefix(self.start)

    def is_empty(self) -> bool:
        """Whether it holds no key, whatever the nodes keep."""
        return self.end is not None and self.end <= self.start

    def takes_pair(self) -> bool:
        """Whether `ack` and `from` apply."""
        return self.scope == "cluster"

    def nodes(self, all_nodes: Nodes) -> Nodes:
        """The nodes that may be asked: another node keeps other keys."""
        return all_nodes if self.scope == "cluster" else Nodes(all_nodes.all[:1])

    def query(self) -> Dict[str, bytes]:
        """Its parameters."""
        query = {"start": self.start}
        if self.end is not None:
            query["end"] = self.end
        if self.scope == "cluster":
            query["scope"] = b"cluster"
        if self.where is not None:
            query["where"] = self.where.encode()
        return query

    def body(self) -> Dict[str, Any]:
        """Its parameters, in a body of JSON."""
        body: Dict[str, Any] = {"scope": "cluster"} if self.scope == "cluster" else {}
        put_bytes(body, "start", self.start)
        if self.end is not None:
            put_bytes(body, "end", self.end)
        if self.where is not None:
            body["where"] = self.where
        return body


def end_of_prefix(prefix: bytes) -> Optional[bytes]:
    """The first key behind all that have the prefix; None if there is no greater key."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


class Scan:
    """A scan under way: what is still to be read of it."""

    def __init__(
        self,
        caller: Caller,
        template: Request,
        keys: Range,
        limit: Optional[int],
        values: bool,
        pair: Dict[str, str],
        seconds: float,
    ) -> None:
        self._caller = caller
        self._fields = {**template.fields, "Accept": LINES, "TE": "trailers"}
        self._keys = keys
        self._limit = limit
        self._values = values
        self._pair = pair if keys.takes_pair() else {}
        self._seconds = seconds
        self._nodes = keys.nodes(caller.nodes)

    async def entities(self) -> AsyncGenerator[Entity, None]:
        """All entities. Raises KvorumError."""
        breaks = 0
        breaks_max = self._caller.settings.rounds * len(self._nodes.all)
        while not self._keys.is_empty() and self._limit != 0:
            exchange = await self._caller.ask(self._open, True, None, self._nodes)
            try:
                lines = _Lines(exchange)
                while (line := await lines.next()) is not None:
                    breaks = 0
                    entity = self._take(exchange.node, line)
                    yield entity
                return
            except AttemptError as error:
                exchange.node.has_failed(error)
                breaks += 1
                if breaks >= breaks_max or error.outcome is Outcome.REFUSED:
                    raise error_of(error, [error], True) from None
            finally:
                exchange.end()

    async def _open(self, node: Node, left: float) -> Exchange:
        query = self._keys.query()
        if not self._values:
            query["values"] = b"omit"
        if self._limit is not None:
            query["limit"] = str(self._limit).encode()
        pairs = [f"{name}={escape(value)}" for name, value in query.items()]
        pairs += [f"{name}={number}" for name, number in self._pair.items()]
        request = Request("GET", "/v0/entities?" + "&".join(pairs), True, self._fields)
        limit = Limit(self._seconds, is_silence=True)
        exchange = await self._caller.send(node, request, limit, self._seconds)
        try:
            if exchange.head.status != 200:
                raise failure(node.url, exchange.head, await exchange.read())
            if not has_type(exchange.head, LINES):
                raise foreign(node.url, exchange.head)
        except BaseException:
            exchange.end()
            raise
        return exchange

    def _take(self, node: Node, line: bytes) -> Entity:
        try:
            parsed = json.loads(line)
            key, version = take_bytes(parsed, "key"), version_number(parsed.get("version"))
            value, expires = take_bytes(parsed, "value"), instant(parsed.get("expires"))
        except (ValueError, TypeError, AttributeError):
            key, version, value, expires = None, None, None, None
        is_in_order = key is not None and key >= self._keys.start
        if key is None or version is None or not is_in_order:
            raise AttemptError(node.url, "the scan has a line that is damaged", Outcome.REFUSED)
        self._keys.start = key + b"\0"
        if self._limit is not None:
            self._limit -= 1
        return Entity(key, value or b"", version, None, expires)


class _Lines:
    """The lines of an answer. An end that is not whole is an error."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._body = exchange.body()
        self._buffer = bytearray()
        self._lines: List[bytes] = []
        self._count = 0

    async def next(self) -> Optional[bytes]:
        """The next line; None at the end."""
        while not self._lines:
            piece = await self._exchange.next(self._body)
            if piece is None:
                self._check_end()
                return None
            self._buffer += piece
            if b"\n" in piece:
                *lines, rest = bytes(self._buffer).split(b"\n")
                self._lines, self._buffer = lines[::-1], bytearray(rest)
            if len(self._buffer) > LINE_BYTES_MAX:
                raise self._damaged("a line is too long")
        self._count += 1
        return self._lines.pop()

    def _check_end(self) -> None:
        count = self._exchange.trailer("kvorum-count")
        if self._buffer or (count is not None and count != str(self._count)):
            raise self._damaged(f"{self._count} entities arrived, and {count} were sent")

    def _damaged(self, text: str) -> AttemptError:
        return AttemptError(self._exchange.node.url, text, Outcome.REFUSED)

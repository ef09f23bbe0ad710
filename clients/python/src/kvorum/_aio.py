"""The client for asyncio."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from typing import Any, AsyncGenerator, Callable, Dict, List, Optional, Sequence

from ._aggregate import Aggregates, Function
from ._caller import Caller, NotConnectedError, Settings
from ._http import StreamError, is_quiet
from ._model import Bytes, Entity, Match, Operation, Replica, Result, Written
from ._nodes import Node
from ._operations import Operations, Options
from ._scan import Range

RECEIVE_BYTES_MAX = 256 << 10
# More is not written before the node has taken it.
UNSENT_BYTES_MAX = 64 << 10


class _LoopStream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes, deadline: float) -> None:
        try:
            self._writer.write(data)
            if len(data) > UNSENT_BYTES_MAX:
                await asyncio.wait_for(self._writer.drain(), deadline - time.monotonic())
        except asyncio.TimeoutError:
            raise _timed_out() from None
        except OSError as error:
            raise StreamError(f"the connection broke: {error}") from None

    async def receive(self, deadline: float) -> bytes:
        try:
            read = self._reader.read(RECEIVE_BYTES_MAX)
            return await asyncio.wait_for(read, deadline - time.monotonic())
        except asyncio.TimeoutError:
            raise _timed_out() from None
        except OSError as error:
            raise StreamError(f"the connection broke: {error}") from None

    def is_usable(self) -> bool:
        if self._reader.at_eof() or self._writer.is_closing():
            return False
        # The loop may not have seen the end yet.
        connected = self._writer.get_extra_info("socket")
        return connected is None or is_quiet(connected.fileno())

    def close(self) -> None:
        self._writer.transport.abort()


def _timed_out() -> StreamError:
    return StreamError("no whole answer came in time", is_timeout=True)


class _LoopTransport:
    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._permits: Optional[asyncio.BoundedSemaphore] = None

    async def connect(self, node: Node, deadline: float) -> _LoopStream:
        opening = asyncio.open_connection(node.host, node.port, ssl=node.tls)
        try:
            reader, writer = await asyncio.wait_for(opening, deadline - time.monotonic())
        except asyncio.TimeoutError:
            raise NotConnectedError("cannot connect: it takes too long") from None
        except OSError as error:
            is_lasting = isinstance(error, ssl.SSLCertVerificationError)
            raise NotConnectedError(f"cannot connect: {error}", is_lasting) from None
        connected = writer.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _LoopStream(reader, writer)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def acquire(self, seconds: float) -> bool:
        if self._permits is None:
            # Before Python 3.10 it belongs to the loop that runs when it is made.
            self._permits = asyncio.BoundedSemaphore(self._connections)
        if not self._permits.locked():
            return await self._permits.acquire()
        try:
            return await asyncio.wait_for(self._permits.acquire(), seconds)
        except asyncio.TimeoutError:
            return False

    def release(self) -> None:
        if self._permits is not None:
            self._permits.release()


class AsyncClient:
    """A client of the nodes of a cluster. Tasks of one event loop may share it.

    All operations raise KvorumError, and ValueError for wrong arguments. Times are in seconds.
    `ack`, `from_`: how many replicas answer, and how many there are; the cluster's pair if
    both are left out. `timeout` replaces that of the client; `traceparent` names the trace.
    """

    def __init__(
        self,
        *urls: str,
        token: Optional[str] = None,
        token_file: Optional[str] = None,
        ca_file: Optional[str] = None,
        connect_timeout: float = 1.0,
        attempt_timeout: float = 5.0,
        timeout: float = 15.0,
        scan_timeout: float = 60.0,
        rounds: int = 4,
        connections: int = 64,
        traceparent: Optional[Callable[[], Optional[str]]] = None,
    ) -> None:
        """A client of these nodes, which asks the first one first. Nothing is sent yet."""
        settings = Settings(
            urls,
            token,
            token_file,
            ca_file,
            connect_timeout,
            attempt_timeout,
            timeout,
            scan_timeout,
            rounds,
            connections,
            traceparent,
        )
        settings.check()
        self._caller = Caller(settings, _LoopTransport(connections))
        self._operations = Operations(self._caller)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the idle connections."""
        self._caller.close()

    async def get(
        self,
        key: Bytes,
        *,
        if_none_match: Optional[str] = None,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> Optional[Entity]:
        """The entity of a key; None if it has no value. If the value still has the etag
        `if_none_match`, it is left out, and `not_modified` says so."""
        options = Options(ack, from_, timeout, traceparent)
        return await self._operations.read("GET", key, if_none_match, options)

    async def head(
        self,
        key: Bytes,
        *,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> Optional[Entity]:
        """The entity of a key without its value; None if the key has no value."""
        return await self._operations.read("HEAD", key, None, Options(ack, from_, timeout, traceparent))

    async def put(
        self,
        key: Bytes,
        value: Bytes,
        *,
        ttl: Optional[int] = None,
        if_match: Optional[Match] = None,
        if_absent: bool = False,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> Written:
        """Writes a value, which expires after `ttl` seconds. `if_match`: only if the key has the
        value with this etag or version, or any for `*`. `if_absent`: only if it has none."""
        options = Options(ack, from_, timeout, traceparent)
        return await self._operations.put(key, value, ttl, if_match, if_absent, options)

    async def touch(
        self,
        key: Bytes,
        *,
        ttl: Optional[int] = None,
        if_match: Optional[Match] = None,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> Written:
        """Keeps the value of a key, which expires `ttl` seconds from now, or never. Raises
        ConflictError if the key has no value."""
        options = Options(ack, from_, timeout, traceparent)
        return await self._operations.touch(key, ttl, if_match, options)

    async def delete(
        self,
        key: Bytes,
        *,
        if_match: Optional[Match] = None,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> Written:
        """Deletes a key, which need not have a value."""
        return await self._operations.delete(key, if_match, Options(ack, from_, timeout, traceparent))

    async def batch(
        self,
        operations: Sequence[Operation],
        *,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> List[Result]:
        """Does many operations in one request, without a transaction: a result for each one, in
        their order. Raises KvorumError only if the batch as a whole failed."""
        return await self._operations.batch(operations, Options(ack, from_, timeout, traceparent))

    def scan(
        self,
        *,
        start: Optional[Bytes] = None,
        end: Optional[Bytes] = None,
        prefix: Optional[Bytes] = None,
        limit: Optional[int] = None,
        scope: str = "cluster",
        where: Optional[str] = None,
        values: bool = True,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> AsyncGenerator[Entity, None]:
        """The entities with keys from `start` to below `end`, or with a prefix, in the order of
        their keys; without values if `values` is False. `scope="node"`: those of the first node.
        `where`: those that match a condition, which the nodes evaluate. `timeout`: how long no byte may come. It goes on at another node if one fails."""
        keys = Range(start, end, prefix, scope, where)
        options = Options(ack, from_, timeout, traceparent)
        return self._operations.scan(keys, limit, values, options)

    async def count(
        self,
        *,
        start: Optional[Bytes] = None,
        end: Optional[Bytes] = None,
        prefix: Optional[Bytes] = None,
        scope: str = "cluster",
        where: Optional[str] = None,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> int:
        """How many entities a scan would have."""
        keys = Range(start, end, prefix, scope, where)
        return await self._operations.count(keys, Options(ack, from_, timeout, traceparent))

    async def aggregate(
        self,
        functions: Sequence[Function] = (),
        *,
        by: Sequence[str] = (),
        start: Optional[Bytes] = None,
        end: Optional[Bytes] = None,
        prefix: Optional[Bytes] = None,
        scope: str = "cluster",
        where: Optional[str] = None,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> Aggregates:
        """Has the nodes count the entities that a scan would have, and compute functions of them, in
        groups of those that have the same values of the expressions `by`; without any there is one
        group. `timeout`: how long no byte may come, and none comes before the end."""
        keys = Range(start, end, prefix, scope, where)
        options = Options(ack, from_, timeout, traceparent)
        return await self._operations.aggregate(keys, functions, by, options)

    async def replicas(
        self, key: Bytes, *, timeout: Optional[float] = None, traceparent: Optional[str] = None
    ) -> List[Replica]:
        """All nodes, in the order in which they are replicas of the key."""
        return await self._operations.replicas(key, Options(None, None, timeout, traceparent))

    async def status(
        self, *, timeout: Optional[float] = None, traceparent: Optional[str] = None
    ) -> Dict[str, Any]:
        """What the node that answers says about itself and the cluster."""
        return await self._operations.status(Options(None, None, timeout, traceparent))

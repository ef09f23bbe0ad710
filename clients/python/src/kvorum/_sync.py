"""The client for programs with threads, or with one."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from typing import Any, Awaitable, Callable, Coroutine, Dict, Iterator, List, Optional, Sequence, TypeVar

from ._aggregate import Aggregates, Function
from ._caller import Caller, NotConnectedError, Settings
from ._http import StreamError, is_quiet
from ._model import Bytes, Entity, Match, Operation, Replica, Result, Written
from ._nodes import Node
from ._operations import Operations, Options
from ._scan import Range

T = TypeVar("T")

RECEIVE_BYTES_MAX = 256 << 10


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine whose streams block instead of suspending."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("a blocking coroutine was suspended")


class _SocketStream:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    async def send(self, data: bytes, deadline: float) -> None:
        try:
            self._wait_until(deadline)
            self._socket.sendall(data)
        except OSError as error:
            raise _stream_error(error) from None

    async def receive(self, deadline: float) -> bytes:
        try:
            self._wait_until(deadline)
            return self._socket.recv(RECEIVE_BYTES_MAX)
        except OSError as error:
            raise _stream_error(error) from None

    def _wait_until(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout
        self._socket.settimeout(left)

    def is_usable(self) -> bool:
        return is_quiet(self._socket.fileno())

    def close(self) -> None:
        self._socket.close()


def _stream_error(error: OSError) -> StreamError:
    if isinstance(error, (socket.timeout, TimeoutError)):
        return StreamError("no whole answer came in time", is_timeout=True)
    return StreamError(f"the connection broke: {error}")


class _SocketTransport:
    def __init__(self, connections: int) -> None:
        self._permits = threading.BoundedSemaphore(connections)

    async def connect(self, node: Node, deadline: float) -> _SocketStream:
        connected = None
        try:
            left = max(deadline - time.monotonic(), 0.001)
            connected = socket.create_connection((node.host, node.port), left)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if node.tls is not None:
                connected.settimeout(max(deadline - time.monotonic(), 0.001))
                connected = node.tls.wrap_socket(connected, server_hostname=node.host)
            return _SocketStream(connected)
        except OSError as error:
            if connected is not None:
                connected.close()
            is_lasting = isinstance(error, ssl.SSLCertVerificationError)
            raise NotConnectedError(f"cannot connect: {error}", is_lasting) from None

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def acquire(self, seconds: float) -> bool:
        return self._permits.acquire(timeout=seconds)

    def release(self) -> None:
        self._permits.release()


class Client:
    """A client of the nodes of a cluster. Threads may share it; a fork may not.

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
        self._caller = Caller(settings, _SocketTransport(connections))
        self._operations = Operations(self._caller)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the idle connections."""
        self._caller.close()

    def get(
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
        return run(self._operations.read("GET", key, if_none_match, options))

    def head(
        self,
        key: Bytes,
        *,
        ack: Optional[int] = None,
        from_: Optional[int] = None,
        timeout: Optional[float] = None,
        traceparent: Optional[str] = None,
    ) -> Optional[Entity]:
        """The entity of a key without its value; None if the key has no value."""
        return run(self._operations.read("HEAD", key, None, Options(ack, from_, timeout, traceparent)))

    def put(
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
        return run(self._operations.put(key, value, ttl, if_match, if_absent, options))

    def touch(
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
        return run(self._operations.touch(key, ttl, if_match, options))

    def delete(
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
        return run(self._operations.delete(key, if_match, Options(ack, from_, timeout, traceparent)))

    def batch(
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
        return run(self._operations.batch(operations, Options(ack, from_, timeout, traceparent)))

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
    ) -> Iterator[Entity]:
        """The entities with keys from `start` to below `end`, or with a prefix, in the order of
        their keys; without values if `values` is False. `scope="node"`: those of the first node.
        `where`: those that match a condition, which the nodes evaluate. `timeout`: how long no byte may come. It goes on at another node if one fails."""
        keys = Range(start, end, prefix, scope, where)
        options = Options(ack, from_, timeout, traceparent)
        entities = self._operations.scan(keys, limit, values, options)

        def each() -> Iterator[Entity]:
            try:
                while True:
                    try:
                        entity = run(_next(entities.__anext__()))
                    except StopAsyncIteration:
                        return
                    yield entity
            finally:
                run(_next(entities.aclose()))

        return each()

    def count(
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
        return run(self._operations.count(keys, Options(ack, from_, timeout, traceparent)))

    def aggregate(
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
        return run(self._operations.aggregate(keys, functions, by, options))

    def replicas(
        self, key: Bytes, *, timeout: Optional[float] = None, traceparent: Optional[str] = None
    ) -> List[Replica]:
        """All nodes, in the order in which they are replicas of the key."""
        return run(self._operations.replicas(key, Options(None, None, timeout, traceparent)))

    def status(
        self, *, timeout: Optional[float] = None, traceparent: Optional[str] = None
    ) -> Dict[str, Any]:
        """What the node that answers says about itself and the cluster."""
        return run(self._operations.status(Options(None, None, timeout, traceparent)))


async def _next(awaitable: Awaitable[T]) -> T:
    return await awaitable

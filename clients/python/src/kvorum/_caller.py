"""Sends requests: over kept connections, to one node after the other, in a few rounds."""

from __future__ import annotations

import os
import random
import ssl
import time
from dataclasses import dataclass, field
from typing import AsyncGenerator, Awaitable, Callable, Container, Dict, List, Optional, Protocol, Sequence, Tuple, TypeVar

from ._answers import failure
from ._errors import AttemptError, KvorumError, Outcome, UnavailableError, error_of
from ._http import Connection, Head, Limit, Stream, StreamError
from ._nodes import Node, Nodes

T = TypeVar("T")

PAUSE_FIRST = 0.1
PAUSE_MAX = 2.0


class NotConnectedError(Exception):
    """There is no connection, so nothing was sent. `is_lasting`: and there will be none."""

    def __init__(self, text: str, is_lasting: bool = False) -> None:
        super().__init__(text)
        self.is_lasting = is_lasting


class Transport(Protocol):
    """What differs between sync and asyncio."""

    async def connect(self, node: Node, deadline: float) -> Stream:
        """A connection, with TLS if the node has it. Raises NotConnectedError."""

    async def sleep(self, seconds: float) -> None:
        """Waits."""

    async def acquire(self, seconds: float) -> bool:
        """Waits for the right to send a request, at most so long."""

    def release(self) -> None:
        """Gives the right back."""


@dataclass(frozen=True)
class Settings:
    """The options of a client, as its reference describes them."""

    urls: Sequence[str]
    token: Optional[str]
    token_file: Optional[str]
    ca_file: Optional[str]
    connect_timeout: float
    attempt_timeout: float
    timeout: float
    scan_timeout: float
    rounds: int
    connections: int
    traceparent: Optional[Callable[[], Optional[str]]]

    def check(self) -> None:
        """ValueError if one of them makes no sense."""
        if not self.urls or isinstance(self.urls, str):
            raise ValueError("give the URL of at least one node")
        if self.token is not None and self.token_file is not None:
            raise ValueError("token and token_file exclude each other")
        if min(self.connect_timeout, self.attempt_timeout, self.timeout, self.scan_timeout) <= 0:
            raise ValueError("a timeout is more than 0 seconds")
        if self.rounds < 1 or self.connections < 1:
            raise ValueError("rounds and connections are at least 1")


@dataclass
class Request:
    """A request that can be sent again. `is_read`: it changes nothing."""

    method: str
    target: str
    is_read: bool
    fields: Dict[str, str] = field(default_factory=dict)
    body: Optional[bytes] = None

    def encode(self, node: Node, token: Optional[str]) -> bytes:
        """Its bytes for a node."""
        fields = {"Host": node.authority, **self.fields}
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        if self.body is not None:
            fields["Content-Length"] = str(len(self.body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        head = f"{self.method} {self.target} HTTP/1.1\r\n{lines}\r\n"
        return head.encode("latin-1") + (self.body or b"")


class Tokens:
    """The token of a client: given, or in a file that is read again when it changes."""

    def __init__(self, token: Optional[str], file: Optional[str]) -> None:
        self._token = _checked(token)
        self._file = file
        self._modified: Optional[int] = None

    def get(self) -> Optional[str]:
        """The token in force; OSError if the file cannot be read."""
        if self._file is not None:
            modified = os.stat(self._file).st_mtime_ns
            if modified != self._modified:
                with open(self._file, encoding="ascii") as file:
                    self._token = _checked(file.read().strip())
                self._modified = modified
        return self._token


class Caller:
    """Asks nodes until one serves a request."""

    def __init__(self, settings: Settings, transport: Transport) -> None:
        settings.check()
        self.settings = settings
        self._transport = transport
        tls = None
        if any(url.startswith("https://") for url in settings.urls):
            tls = ssl.create_default_context(cafile=settings.ca_file)
        self.nodes = Nodes([Node(url, tls) for url in settings.urls])
        self._tokens = Tokens(settings.token, settings.token_file)

    def trace(self, given: Optional[str]) -> Dict[str, str]:
        """The field that names the trace of an operation."""
        if given is None and self.settings.traceparent is not None:
            given = self.settings.traceparent()
        return {} if given is None else {"traceparent": _one_line(given)}

    async def ask(
        self,
        attempt: Callable[[Node, float], Awaitable[T]],
        is_read: bool,
        seconds: Optional[float] = None,
        nodes: Optional[Nodes] = None,
    ) -> T:
        """Asks one node after the other, in rounds. An attempt gets the seconds that are left;
        `seconds` is None where only the rounds bound it.

        Raises the KvorumError that says what came of it."""
        nodes = self.nodes if nodes is None else nodes
        end = float("inf") if seconds is None else time.monotonic() + seconds
        met: List[AttemptError] = []
        for number in range(self.settings.rounds):
            in_round: List[AttemptError] = []
            for node in nodes.order():
                left = end - time.monotonic()
                if left <= 0:
                    raise self._over(met, seconds)
                try:
                    done = await attempt(node, left)
                except AttemptError as error:
                    node.has_failed(error)
                    met.append(error)
                    in_round.append(error)
                    goes_on = error.outcome is Outcome.NOT_APPLIED
                    if not goes_on and not (is_read and error.outcome is Outcome.UNKNOWN):
                        raise error_of(error, met, is_read) from None
                else:
                    nodes.prefer(node)
                    return done
            if number + 1 == self.settings.rounds or all(error.is_lasting for error in in_round):
                break
            wait = pause(number, in_round)
            if time.monotonic() + wait >= end:
                raise self._over(met, seconds)
            await self._transport.sleep(wait)
        raise error_of(met[-1], met, is_read)

    def _over(self, met: List[AttemptError], seconds: Optional[float]) -> KvorumError:
        if met:
            # Every attempt before did nothing, or was one of a read.
            return error_of(met[-1], met, True)
        return UnavailableError(f"the time was over before a node was asked: {seconds} s")

    async def send(self, node: Node, request: Request, limit: Limit, left: float) -> "Exchange":
        """Sends a request to one node. The caller reads its answer and ends the exchange.

        Raises AttemptError."""
        encoded = request.encode(node, self._tokens.get())
        if not await self._transport.acquire(left):
            text = "as many requests as `connections` allows were running all the time"
            raise AttemptError(node.url, text, Outcome.NOT_APPLIED)
        connection: Optional[Connection] = None
        try:
            connection = node.take() or await self._connect(node, left)
            if time.monotonic() >= limit.deadline():
                text = "the time was over before the request was sent"
                raise AttemptError(node.url, text, Outcome.NOT_APPLIED)
            exchange = Exchange(self._transport, node, connection, request, limit)
            await exchange.start(encoded)
            return exchange
        except BaseException:
            if connection is not None:
                connection.close()
            self._transport.release()
            raise

    async def fetch(
        self,
        node: Node,
        request: Request,
        left: float,
        success: Container[int],
        limit: Optional[Limit] = None,
    ) -> Tuple[Head, bytes]:
        """Sends a request to one node. The whole answer, if it has one of these statuses.

        Raises AttemptError."""
        limit = limit or Limit(min(left, self.settings.attempt_timeout))
        exchange = await self.send(node, request, limit, left)
        try:
            body = await exchange.read()
        finally:
            exchange.end()
        if exchange.head.status not in success:
            raise failure(node.url, exchange.head, body)
        return exchange.head, body

    async def _connect(self, node: Node, left: float) -> Connection:
        deadline = time.monotonic() + min(left, self.settings.connect_timeout)
        try:
            return Connection(await self._transport.connect(node, deadline))
        except NotConnectedError as error:
            raise AttemptError(
                node.url, str(error), Outcome.NOT_APPLIED, skip=0.0, is_lasting=error.is_lasting
            ) from None

    def close(self) -> None:
        """Closes the idle connections."""
        self.nodes.close()


class Exchange:
    """One request and its answer on a connection of its own."""

    def __init__(
        self, transport: Transport, node: Node, connection: Connection, request: Request, limit: Limit
    ) -> None:
        self.node = node
        self.head = Head(0, {})
        self._transport = transport
        self._connection = connection
        self._request = request
        self._limit = limit

    async def start(self, encoded: bytes) -> None:
        """Sends the request and reads the head of the answer."""
        try:
            self.head = await self._connection.send(encoded, self._limit)
        except StreamError as error:
            raise self._broken(error) from None

    async def next(self, body: AsyncGenerator[bytes, None]) -> Optional[bytes]:
        """The next piece of a body; None at its end."""
        try:
            return await body.__anext__()
        except StopAsyncIteration:
            return None
        except StreamError as error:
            raise self._broken(error) from None

    def body(self) -> AsyncGenerator[bytes, None]:
        """The body of the answer."""
        return self._connection.body(self.head, self._request.method == "HEAD", self._limit)

    async def read(self) -> bytes:
        """The whole body."""
        try:
            return await self._connection.read(
                self.head, self._request.method == "HEAD", self._limit
            )
        except StreamError as error:
            raise self._broken(error) from None

    def trailer(self, name: str) -> Optional[str]:
        """A trailer of an answer that was read to its end."""
        return self._connection.trailers.get(name)

    def end(self) -> None:
        """Keeps the connection if the answer was read to its end, and closes it otherwise."""
        if self._connection.is_reusable():
            self.node.give_back(self._connection)
        else:
            self._connection.close()
        self._transport.release()

    def _broken(self, error: StreamError) -> AttemptError:
        return AttemptError(self.node.url, str(error), Outcome.UNKNOWN, skip=0.0)


def pause(number: int, errors: List[AttemptError]) -> float:
    """How long to wait after a round (from 0) in which all nodes failed, in seconds."""
    wait = min(PAUSE_FIRST * 2.0**number, PAUSE_MAX) * random.uniform(0.5, 1.0)
    asked_for = [error.retry_after for error in errors if error.retry_after is not None]
    if len(asked_for) == len(errors):
        wait = max(wait, min(asked_for))
    return min(wait, PAUSE_MAX)


def _checked(token: Optional[str]) -> Optional[str]:
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("not a token")
    return token


def _one_line(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"not the value of a header field: {text!r}")
    return text

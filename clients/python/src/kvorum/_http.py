"""HTTP/1.1 as a client of nodes needs it: one request at a time on a connection, and answers that
are whole or an error. Time is in seconds of `time.monotonic`.

All of this is written once, as coroutines over a `Stream`. The streams of the sync client block
instead of suspending, so that `run` finishes their coroutines in one step.
"""

from __future__ import annotations

import select
import time
from typing import AsyncGenerator, Dict, Protocol

HEAD_BYTES_MAX = 64 << 10
BODY_BYTES_MAX = 1 << 30


class StreamError(Exception):
    """A connection failed, or the time was over (`is_timeout`)."""

    def __init__(self, text: str, is_timeout: bool = False) -> None:
        super().__init__(text)
        self.is_timeout = is_timeout


class Stream(Protocol):
    """Bytes to and from a node. All of it raises StreamError."""

    async def send(self, data: bytes, deadline: float) -> None:
        """Sends all of it."""

    async def receive(self, deadline: float) -> bytes:
        """What came; nothing at the end."""

    def is_usable(self) -> bool:
        """Whether an idle connection is still open."""

    def close(self) -> None:
        """Closes it at once."""


def is_quiet(descriptor: int) -> bool:
    """Whether nothing can be read from an idle connection: what can is its end, or no answer."""
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return not poll.poll(0)
        return not select.select([descriptor], [], [], 0)[0]
    except (OSError, ValueError):
        return False


class Limit:
    """How long something may take: until a moment, or without a byte for some time."""

    def __init__(self, seconds: float, is_silence: bool = False) -> None:
        self._seconds = seconds if is_silence else None
        self._end = time.monotonic() + seconds

    def deadline(self) -> float:
        """Until when the next byte has to come."""
        return self._end if self._seconds is None else time.monotonic() + self._seconds


class Head:
    """The status and the fields of an answer; their names are in lower case."""

    def __init__(self, status: int, fields: Dict[str, str]) -> None:
        self.status = status
        self.fields = fields


class Connection:
    """A connection to a node."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._is_kept = True
        self._is_whole = True
        self.trailers: Dict[str, str] = {}

    def is_usable(self) -> bool:
        """Whether a request may be sent."""
        return self._is_whole and self._is_kept and not self._buffer and self._stream.is_usable()

    def is_reusable(self) -> bool:
        """Whether the answer was read to its end, and the node keeps the connection."""
        return self._is_whole and self._is_kept and not self._buffer

    def close(self) -> None:
        """Closes it at once."""
        self._is_kept = False
        self._stream.close()

    async def send(self, request: bytes, limit: Limit) -> Head:
        """Sends a request and reads the head of its answer."""
        self._is_whole = False
        self.trailers = {}
        refused = None
        try:
            await self._stream.send(request, limit.deadline())
        except StreamError as error:
            # A node may answer before it has read a body that it refuses.
            if error.is_timeout:
                raise
            refused = error
        try:
            while True:
                head = await self._head(limit)
                if head.status >= 200:
                    return head
        except StreamError:
            if refused is not None:
                raise refused from None
            raise

    async def body(self, head: Head, is_head: bool, limit: Limit) -> AsyncGenerator[bytes, None]:
        """The body of an answer, piece by piece. An end that comes too early is an error."""
        if is_head or head.status in (204, 304):
            self._is_whole = True
            return
        if head.fields.get("transfer-encoding", "").lower() == "chunked":
            while True:
                size = _size((await self._line(limit)).partition(b";")[0].strip(), 16)
                if size == 0:
                    self.trailers = await self._fields(limit)
                    break
                async for piece in self._bytes(size, limit):
                    yield piece
                if await self._line(limit):
                    raise StreamError("a chunk does not end where it should")
        elif "content-length" in head.fields:
            size = _size(head.fields["content-length"].encode(), 10)
            async for piece in self._bytes(size, limit):
                yield piece
        else:
            raise StreamError("the answer does not say where it ends")
        self._is_whole = True

    async def read(self, head: Head, is_head: bool, limit: Limit) -> bytes:
        """The whole body of an answer."""
        body = bytearray()
        async for piece in self.body(head, is_head, limit):
            body += piece
            if len(body) > BODY_BYTES_MAX:
                raise StreamError(f"the answer is longer than {BODY_BYTES_MAX} bytes")
        return bytes(body)

    async def _head(self, limit: Limit) -> Head:
        parts = (await self._line(limit)).decode("latin-1").split(" ", 2)
        if len(parts) < 2 or parts[0] not in ("HTTP/1.1", "HTTP/1.0") or not parts[1].isdigit():
            raise StreamError("the answer is not HTTP")
        fields = await self._fields(limit)
        connection = fields.get("connection", "").lower()
        self._is_kept = parts[0] == "HTTP/1.1" and "close" not in connection
        return Head(int(parts[1]), fields)

    async def _fields(self, limit: Limit) -> Dict[str, str]:
        fields: Dict[str, str] = {}
        size = 0
        while line := await self._line(limit):
            size += len(line)
            if size > HEAD_BYTES_MAX:
                raise StreamError("the head of the answer is too long")
            name, _, value = line.decode("latin-1").partition(":")
            fields[name.strip().lower()] = value.strip()
        return fields

    async def _line(self, limit: Limit) -> bytes:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > HEAD_BYTES_MAX:
                raise StreamError("a line of the answer is too long")
            self._buffer += await self._receive(limit)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line[:-1] if line.endswith(b"\r") else line

    async def _bytes(self, size: int, limit: Limit) -> AsyncGenerator[bytes, None]:
        while size:
            piece = bytes(self._buffer[:size])
            del self._buffer[:size]
            if not piece:
                piece = await self._receive(limit)
                self._buffer += piece[size:]
                piece = piece[:size]
            size -= len(piece)
            yield piece

    async def _receive(self, limit: Limit) -> bytes:
        data = await self._stream.receive(limit.deadline())
        if not data:
            raise StreamError("the node closed the connection before its answer was whole")
        return data


def _size(text: bytes, base: int) -> int:
    try:
        size = int(text, base)
    except ValueError:
        size = -1
    if size < 0 or not text[:1].isalnum():
        raise StreamError("the answer names no length")
    return size

"""What the tests share: a real cluster, fake nodes, and one way to call both clients."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

import kvorum

NODES = pathlib.Path(
    os.environ.get(
        "KVORUM_TEST_NODES",
        pathlib.Path(__file__).resolve().parents[2] / "testing" / "nodes.py",
    )
)


class Cluster:
    """Three nodes, which end with the test."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(NODES), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.told = self._line()
        self.urls: List[str] = self.told["urls"]

    def _line(self) -> Dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the nodes did not start")
        told: Dict[str, Any] = json.loads(line)
        if "error" in told:
            raise RuntimeError(told["error"])
        return told

    def tell(self, words: str) -> Dict[str, Any]:
        """Has it done, such as `kill 3`."""
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        return self._line()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Blocking:
    """An AsyncClient whose methods block, so that one test is that of both clients."""

    def __init__(self, *urls: str, **options: Any) -> None:
        self._client = kvorum.AsyncClient(*urls, **options)
        self._loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            done = getattr(self._client, name)(*arguments, **options)
            return done if name == "scan" else self._loop.run_until_complete(done)

        def scan(**options: Any) -> Any:
            entities = self._client.scan(**options)
            try:
                while True:
                    try:
                        yield self._loop.run_until_complete(entities.__anext__())
                    except StopAsyncIteration:
                        return
            finally:
                self._loop.run_until_complete(entities.aclose())

        return scan if name == "scan" else call

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


Answer = Optional[bytes]


class Fake:
    """A node that answers with given bytes, one answer a request, and then no more. None closes the
    connection after the request has come, and `b""` answers nothing."""

    def __init__(self, *answers: Answer, closes: bool = False) -> None:
        self._answers = list(answers)
        self._closes = closes
        self.requests: List[str] = []
        self.connections = 0
        self.closed = threading.Event()
        self._kept: List[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._kept.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._answer(connection)
        except OSError:
            pass  # The test has ended.

    def _answer(self, connection: socket.socket) -> None:
        file = connection.makefile("rb")
        while True:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = file.readline()
                if not line:
                    connection.close()
                    return
                head += line
            text = head.decode()
            length = [line for line in text.splitlines() if line.lower().startswith("content-length:")]
            file.read(int(length[0].split(":")[1]) if length else 0)
            self.requests.append(text)
            answer = self._answers.pop(0) if self._answers else None
            if answer:
                connection.sendall(answer)
            if answer is None or self._closes:
                file.close()
                connection.shutdown(socket.SHUT_RDWR)
                connection.close()
                self.closed.set()
                return

    def close(self) -> None:
        self._listener.close()
        for connection in self._kept:
            connection.close()


def answer(status: int, body: bytes = b"", **fields: object) -> bytes:
    """An answer of a node."""
    given = {"kvorum-version": 7, "etag": '"0000000000000007-0000000000000000"', **fields}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status} X\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body


def problem(status: int, name: str, retry_after: Optional[int] = None, **more: object) -> bytes:
    """A problem of a node."""
    body = json.dumps({"type": f"urn:kvorum:problem:{name}", "title": name, "status": status, **more})
    fields: Dict[str, object] = {"content_type": "application/problem+json"}
    if retry_after is not None:
        fields["retry_after"] = retry_after
    return answer(status, body.encode(), **fields)


def lines(given: Sequence[Dict[str, object]], is_whole: bool = True, sent: Optional[int] = None) -> bytes:
    """An answer of lines of JSON, which ends with its last chunk if it is whole."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b""
    for line in given:
        text = json.dumps(line).encode() + b"\n"
        body += f"{len(text):x}\r\n".encode() + text + b"\r\n"
    end = f"0\r\nKvorum-Count: {len(given) if sent is None else sent}\r\n\r\n".encode()
    return head + body + (end if is_whole else b"")


def closed_port() -> str:
    """The URL of a port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


"""Which node is asked: the one that answered last first, those that failed of late last."""

from __future__ import annotations

import ssl
import time
from collections import deque
from typing import Deque, List, Optional, Tuple
from urllib.parse import urlsplit

from ._errors import AttemptError
from ._http import Connection

SKIP_FIRST = 1.0
SKIP_MAX = 30.0
IDLE_SECONDS_MAX = 20.0


class Node:
    """A node, and its idle connections."""

    def __init__(self, url: str, tls: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not a URL of a node: {url!r}")
        if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
            raise ValueError(f"the URL of a node ends with its port: {url!r}")
        self.url = url.rstrip("/")
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.authority = parts.netloc
        self.tls = tls if parts.scheme == "https" else None
        self.skipped_until = 0.0
        self._strikes = 0
        self._idle: Deque[Tuple[float, Connection]] = deque()

    def has_failed(self, error: AttemptError) -> None:
        """Notes a failed attempt: the node is asked after the others for some time."""
        if error.skip is None:
            self.has_answered()
            return
        seconds = error.skip
        if error.status != 503:
            seconds = SKIP_FIRST * 2.0 ** min(self._strikes, 10)
            self._strikes += 1
            self.close()
        self.skipped_until = time.monotonic() + min(seconds, SKIP_MAX)

    def has_answered(self) -> None:
        """Notes an answer."""
        self.skipped_until, self._strikes = 0.0, 0

    def take(self) -> Optional[Connection]:
        """An idle connection that the node has not closed."""
        while True:
            try:
                since, connection = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - since < IDLE_SECONDS_MAX and connection.is_usable():
                return connection
            connection.close()

    def give_back(self, connection: Connection) -> None:
        """Keeps a connection whose answer was read to its end, and closes those that are idle for
        too long."""
        now = time.monotonic()
        self._idle.append((now, connection))
        try:
            while now - self._idle[0][0] >= IDLE_SECONDS_MAX:
                self._idle.popleft()[1].close()
        except IndexError:
            pass  # Another thread took it.

    def close(self) -> None:
        """Closes the idle connections."""
        while True:
            try:
                self._idle.popleft()[1].close()
            except IndexError:
                return


class Nodes:
    """All nodes of a client."""

    def __init__(self, nodes: List[Node]) -> None:
        self.all = nodes
        self._preferred = 0

    def order(self) -> List[Node]:
        """The nodes in the order in which a round asks them."""
        first, now = self._preferred, time.monotonic()
        turned = self.all[first:] + self.all[:first]
        return sorted(turned, key=lambda node: max(node.skipped_until - now, 0.0))

    def prefer(self, node: Node) -> None:
        """Notes the node that answered last."""
        node.has_answered()
        self._preferred = self.all.index(node)

    def close(self) -> None:
        """Closes all idle connections."""
        for node in self.all:
            node.close()

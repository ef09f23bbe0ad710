"""What operations take and give, and how keys, values and versions are written."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Dict, Optional, Union
from urllib.parse import quote_from_bytes

from ._errors import KvorumError

Bytes = Union[bytes, bytearray, memoryview, str]
"""Bytes, or text that is sent as UTF-8."""

Match = Union[str, int]
"""An etag, `*`, or a version."""

KEY_BYTES_MAX = 4096


@dataclass(frozen=True)
class Entity:
    """A key with its value and version. `etag` is None in scans and batches. `expires` is in UTC.
    `not_modified` says that the value is left out, because `if_none_match` fits."""

    key: bytes
    value: bytes
    version: int
    etag: Optional[str] = None
    expires: Optional[datetime] = None
    not_modified: bool = False


@dataclass(frozen=True)
class Written:
    """A write that took effect: its version and its etag."""

    version: int
    etag: Optional[str]


@dataclass(frozen=True)
class Replica:
    """A node that is a replica of a key."""

    name: str
    url: str


@dataclass(frozen=True)
class Result:
    """What became of an operation of a batch. `error` is None if it was done; a `Get` of a key
    without a value has the status 404 and no error. `status` is 0 without an answer."""

    status: int
    version: Optional[int] = None
    value: Optional[bytes] = None
    expires: Optional[datetime] = None
    error: Optional[KvorumError] = None


@dataclass(frozen=True)
class Get:
    """Reads a key, in a batch."""

    key: Bytes


@dataclass(frozen=True)
class Put:
    """Writes a value, in a batch. `if_match` is a version or the etag of one."""

    key: Bytes
    value: Bytes
    ttl: Optional[int] = None
    if_match: Optional[Match] = None
    if_absent: bool = False


@dataclass(frozen=True)
class Touch:
    """Changes when a value expires, in a batch; without `ttl` never."""

    key: Bytes
    ttl: Optional[int] = None
    if_match: Optional[Match] = None


@dataclass(frozen=True)
class Delete:
    """Deletes a key, in a batch."""

    key: Bytes
    if_match: Optional[Match] = None


Operation = Union[Get, Put, Touch, Delete]


def as_bytes(given: Bytes) -> bytes:
    """The bytes of a value."""
    return given.encode() if isinstance(given, str) else bytes(given)


def as_key(given: Bytes, bytes_max: int = KEY_BYTES_MAX) -> bytes:
    """The bytes of a key; ValueError if no key has so many."""
    key = as_bytes(given)
    if not 1 <= len(key) <= bytes_max:
        raise ValueError(f"a key has 1 to {bytes_max} bytes, not {len(key)}")
    return key


def escape(given: bytes) -> str:
    """The bytes as the value of a query parameter."""
    return quote_from_bytes(given, safe="")


def etag_of(match: Match) -> str:
    """The value of `If-Match`. Nodes know a version by its timestamp and ignore the hash."""
    if isinstance(match, int):
        return f'"{match:016x}-{0:016x}"'
    if not match or any(ord(character) < 32 or ord(character) > 126 for character in match):
        raise ValueError(f"not an etag: {match!r}")
    return match


def version_of(match: Match) -> str:
    """The version that a condition names, for a line of a batch."""
    if isinstance(match, int):
        return str(match)
    digits = match.strip('"').partition("-")[0]
    try:
        return str(int(digits, 16))
    except ValueError:
        raise ValueError(f"a condition in a batch is a version or the etag of one, not {match!r}") from None


def line_of(operation: Operation) -> Dict[str, Any]:
    """The line of an operation of a batch."""
    line: Dict[str, Any] = {"op": type(operation).__name__.lower()}
    put_bytes(line, "key", as_key(operation.key))
    if isinstance(operation, Get):
        return line
    if isinstance(operation, Touch):
        line.update(op="put", touch=True)
    if isinstance(operation, Put):
        put_bytes(line, "value", as_bytes(operation.value))
        if operation.if_absent:
            exclude_both(operation.if_match)
            line["if_absent"] = True
    if isinstance(operation, (Put, Touch)) and operation.ttl is not None:
        line["ttl"] = seconds(operation.ttl)
    if operation.if_match is not None:
        line["if_version"] = version_of(operation.if_match)
    return line


def exclude_both(if_match: Optional[Match]) -> None:
    """ValueError if a write has `if_absent` and this condition."""
    if if_match is not None:
        raise ValueError("if_match and if_absent exclude each other")


def seconds(ttl: int) -> int:
    """A time to live; ValueError if it is none."""
    if ttl != int(ttl) or ttl < 1:
        raise ValueError(f"ttl is a whole number of seconds from 1, not {ttl}")
    return int(ttl)


def put_bytes(line: Dict[str, Any], name: str, given: bytes) -> None:
    """Adds bytes to a line: as text, or in base64 where they are not UTF-8."""
    try:
        line[name] = given.decode()
    except UnicodeDecodeError:
        line[f"{name}_base64"] = base64.b64encode(given).decode()


def take_bytes(line: Dict[str, Any], name: str) -> Optional[bytes]:
    """The bytes in a line of an answer."""
    if name in line:
        return str(line[name]).encode()
    coded = line.get(f"{name}_base64")
    return None if coded is None else base64.b64decode(coded)


def instant(text: Optional[str]) -> Optional[datetime]:
    """The time of an RFC 3339 text."""
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))

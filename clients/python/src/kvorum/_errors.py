"""What can go wrong: the errors that users see, and the failure of one attempt at one node."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

Problem = Dict[str, Any]

PROBLEM_PREFIX = "urn:kvorum:problem:"


@dataclass(frozen=True)
class Attempt:
    """What one attempt met: the URL of the node, and what happened, in words."""

    node: str
    text: str


class KvorumError(Exception):
    """The base of all errors of a cluster.

    `status` and `problem` (the problem document) are those of the last answer; None if there was
    none. `attempts` says what each attempt met.
    """

    def __init__(
        self,
        text: str,
        status: Optional[int] = None,
        problem: Optional[Problem] = None,
        attempts: Sequence[Attempt] = (),
    ) -> None:
        super().__init__(text)
        self.status = status
        self.problem = problem
        self.attempts = tuple(attempts)


class UnavailableError(KvorumError):
    """No node served the request, and nothing was applied."""


class UnknownOutcomeError(KvorumError):
    """A write may have taken effect, or may yet. It was not repeated."""

    @property
    def version(self) -> Optional[int]:
        """The version of the attempt, if the receipt names it. A later read of this version says
        that the write took effect; a read of another version says nothing."""
        return _number((self.problem or {}).get("timestamp"))

    @property
    def replicas(self) -> List[Dict[str, str]]:
        """The receipt: the `url` and the `outcome` of each replica, if there is one."""
        replicas = (self.problem or {}).get("replicas")
        return replicas if isinstance(replicas, list) else []


class ConflictError(KvorumError):
    """The condition of a write does not hold, and nothing was written.

    `version` and `etag` are those of the value that the key has; both None if it has none.
    """

    version: Optional[int] = None
    etag: Optional[str] = None


class RefusedError(KvorumError):
    """The request is wrong, or may not be served."""

    @property
    def type(self) -> str:
        """The type of the problem, such as `no-right`."""
        text = str((self.problem or {}).get("type", ""))
        return text[len(PROBLEM_PREFIX) :] if text.startswith(PROBLEM_PREFIX) else text


class Outcome(enum.Enum):
    """What is known of a request after a failed attempt."""

    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"
    CONFLICT = "conflict"
    REFUSED = "refused"


class AttemptError(Exception):
    """An attempt at one node that failed. `skip` says for how many seconds the node is not to be
    asked before others: None: not at all, 0: as long as the client thinks fit."""

    def __init__(
        self,
        node: str,
        text: str,
        outcome: Outcome,
        *,
        status: Optional[int] = None,
        problem: Optional[Problem] = None,
        skip: Optional[float] = None,
        is_lasting: bool = False,
        etag: Optional[str] = None,
        version: Optional[int] = None,
    ) -> None:
        super().__init__(text)
        self.node = node
        self.text = text
        self.outcome = outcome
        self.status = status
        self.problem = problem
        self.skip = skip
        self.is_lasting = is_lasting
        self.etag = etag
        self.version = version

    @property
    def retry_after(self) -> Optional[float]:
        """The seconds of `Retry-After`, if the node said them."""
        return self.skip if self.status == 503 else None


def error_of(last: AttemptError, attempts: Sequence[AttemptError], is_read: bool) -> KvorumError:
    """The error of an operation whose last attempt this is."""
    met = [Attempt(attempt.node, attempt.text) for attempt in attempts]
    text = f"{last.node}: {last.text}"
    if last.outcome is Outcome.CONFLICT:
        conflict = ConflictError(text, last.status, last.problem, met)
        conflict.etag, conflict.version = last.etag, last.version
        return conflict
    if last.outcome is Outcome.REFUSED:
        return RefusedError(text, last.status, last.problem, met)
    if last.outcome is Outcome.UNKNOWN and not is_read:
        text = f"the write may have taken effect, or may yet: {text}"
        return UnknownOutcomeError(text, last.status, last.problem, met)
    # Of the last round each node says its own.
    texts = dict((attempt.node, attempt.text) for attempt in attempts)
    text = "; ".join(f"{node}: {said}" for node, said in texts.items())
    return UnavailableError(f"no node served the request: {text}", last.status, last.problem, met)


def _number(text: object) -> Optional[int]:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None

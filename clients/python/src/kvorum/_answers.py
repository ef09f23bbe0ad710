"""What an answer means: success, or the failure of an attempt."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional

from ._errors import PROBLEM_PREFIX, AttemptError, Outcome
from ._http import Head

NOT_APPLIED_TYPES = ("late-body", "broken-body")


def failure(node: str, head: Head, body: bytes) -> AttemptError:
    """The failure that an answer other than success is."""
    problem = _problem(head, body)
    if problem is None:
        return foreign(node, head)
    return of_problem(
        node,
        head.status,
        problem,
        retry_after=head.fields.get("retry-after"),
        version=head.fields.get("kvorum-version"),
        etag=head.fields.get("etag"),
    )


def foreign(node: str, head: Head) -> AttemptError:
    """An answer that no node gives."""
    text = f"the answer, of status {head.status}, is not that of a Kvorum node"
    return AttemptError(node, text, Outcome.UNKNOWN, status=head.status, skip=0.0)


def of_problem(
    node: str,
    status: int,
    problem: Dict[str, Any],
    retry_after: Optional[str] = None,
    version: Optional[str] = None,
    etag: Optional[str] = None,
) -> AttemptError:
    """The failure that a problem document is: that of an answer, or of a line of a batch."""
    name = problem_type(problem)
    skip = None
    if status == 503:
        outcome = Outcome.NOT_APPLIED
        skip = float(retry_after) if retry_after and retry_after.isdigit() else 1.0
    elif (status == 504 and problem.get("outcome") == "not-applied") or name in NOT_APPLIED_TYPES:
        outcome = Outcome.NOT_APPLIED
    elif status in (500, 504):
        outcome = Outcome.UNKNOWN
    elif status == 412:
        outcome = Outcome.CONFLICT
    else:
        outcome = Outcome.REFUSED
    text = f"{status} {problem.get('title', name)}: {problem.get('detail', '')}"
    number = version_number(version)
    return AttemptError(
        node, text, outcome, status=status, problem=problem, skip=skip, etag=etag, version=number
    )


def problem_type(problem: Dict[str, Any]) -> str:
    """The type of a problem, without what all of them begin with."""
    return str(problem.get("type", ""))[len(PROBLEM_PREFIX) :]


def is_no_such_entity(error: AttemptError) -> bool:
    """Whether it says that the key has no value."""
    return error.status == 404 and problem_type(error.problem or {}) == "no-such-entity"


def version_number(text: Optional[str]) -> Optional[int]:
    """The version in a field; None if it is none."""
    return int(text) if text and text.isascii() and text.isdigit() else None


def has_type(head: Head, wanted: str) -> bool:
    """Whether an answer has this media type."""
    return head.fields.get("content-type", "").partition(";")[0].strip().lower() == wanted


def _problem(head: Head, body: bytes) -> Optional[Dict[str, Any]]:
    if not has_type(head, "application/problem+json"):
        return None
    if not body:
        # The answer to a HEAD has no body, and one kind of 404.
        return {"type": PROBLEM_PREFIX + ("no-such-entity" if head.status == 404 else "")}
    try:
        problem = json.loads(body)
    except ValueError:
        return None
    if isinstance(problem, dict) and str(problem.get("type", "")).startswith(PROBLEM_PREFIX):
        return problem
    return None

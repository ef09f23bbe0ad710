"""What the nodes compute of many entities: the question, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Union

from ._scan import Range

Scalar = Union[None, bool, int, float, str]
"""What an expression amounts to; a time is text of RFC 3339."""


@dataclass(frozen=True)
class Sum:
    """The sum of the numbers that an expression has."""

    expression: str


@dataclass(frozen=True)
class Min:
    """The least number, time or text that an expression has."""

    expression: str


@dataclass(frozen=True)
class Max:
    """The greatest number, time or text that an expression has."""

    expression: str


Function = Union[Sum, Min, Max]


@dataclass(frozen=True)
class Aggregate:
    """The result of a function. `value` is None if nothing fitted, or if the sum is too great for a
    number; `counted` is the number of entities whose value fitted."""

    operation: str
    value: Scalar
    counted: int


@dataclass(frozen=True)
class Group:
    """The entities that have the same values of `by`, None for what does not fit."""

    by: List[Scalar]
    count: int
    aggregates: List[Aggregate]


@dataclass(frozen=True)
class Aggregates:
    """What all entities of a range amount to. `keys` were looked at, and `matched` of them match the
    condition. Of the whole cluster, `ack` of the `from_` replicas of each key had to answer."""

    keys: int
    matched: int
    ack: Optional[int]
    from_: Optional[int]
    groups: List[Group]


def question_of(
    keys: Range, functions: Sequence[Function], by: Sequence[str], pair: Dict[str, str]
) -> Dict[str, Any]:
    """The body of the request."""
    if isinstance(by, str):
        raise ValueError("by is a list of expressions")
    question = {**keys.body(), "by": list(by)}
    question["aggregates"] = [{type(each).__name__.lower(): each.expression} for each in functions]
    if keys.takes_pair():
        question.update({name: int(number) for name, number in pair.items()})
    return question


def aggregates_of(page: Dict[str, Any]) -> Aggregates:
    """The answer. Raises KeyError, TypeError or ValueError if it is none."""
    groups = [
        Group(each["by"], int(each["count"]), [_aggregate(result) for result in each["aggregates"]])
        for each in page["groups"]
    ]
    return Aggregates(int(page["keys"]), int(page["matched"]), page.get("ack"), page.get("from"), groups)


def _aggregate(result: Dict[str, Any]) -> Aggregate:
    return Aggregate(str(result["operation"]), result["value"], int(result["counted"]))

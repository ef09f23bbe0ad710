"""A client of Kvorum, a replicated key-value store.

    with Client("http://a:8080", "http://b:8080") as client:
        client.put("key", "value", ttl=60)
        entity = client.get("key")

`AsyncClient` has the same methods for asyncio.
"""

from ._aggregate import Aggregate, Aggregates, Function, Group, Max, Min, Scalar, Sum
from ._aio import AsyncClient
from ._errors import Attempt, ConflictError, KvorumError, RefusedError, UnavailableError, UnknownOutcomeError
from ._model import Delete, Entity, Get, Operation, Put, Replica, Result, Touch, Written
from ._sync import Client

__all__ = [
    "Aggregate",
    "Aggregates",
    "AsyncClient",
    "Attempt",
    "Client",
    "ConflictError",
    "Delete",
    "Entity",
    "Function",
    "Get",
    "Group",
    "KvorumError",
    "Max",
    "Min",
    "Operation",
    "Put",
    "RefusedError",
    "Replica",
    "Result",
    "Scalar",
    "Sum",
    "Touch",
    "UnavailableError",
    "UnknownOutcomeError",
    "Written",
]

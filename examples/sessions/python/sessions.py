"""A session store: python3 sessions.py URL ...

It reads commands and answers each with a line; ../README.md has them. A session is a key of its own
that expires, so no node has to be asked whether one is over, and none has to clean up.
"""

import json
import os
import secrets
import sys
from typing import Callable, Iterator, Optional, Tuple, TypeVar

from kvorum import Client, ConflictError, UnknownOutcomeError

PREFIX = "session/"
SECONDS = int(os.environ.get("SESSION_SECONDS", "1800"))
TRIES = 5
T = TypeVar("T")


def repeated(write: Callable[[], T]) -> T:
    """A write whose outcome is unknown is repeated. That does no harm here: only this write has
    this key, or it only says again what it said before."""
    for _ in range(TRIES - 1):
        try:
            return write()
        except UnknownOutcomeError:
            pass
    return write()


class Sessions:
    """The sessions of all users."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def login(self, user: str) -> str:
        """Begins a session. Its ID is a secret that nobody can guess."""
        session = secrets.token_urlsafe(16)
        value = json.dumps({"user": user})
        repeated(lambda: self._client.put(PREFIX + session, value, ttl=SECONDS))
        return session

    def user(self, session: str) -> Optional[str]:
        """Whose session it is; None if it is over."""
        entity = self._client.get(PREFIX + session)
        return json.loads(entity.value)["user"] if entity else None

    def touch(self, session: str) -> bool:
        """Makes a session last for its whole time again. False if it is over: a touch cannot bring
        back what a logout has ended meanwhile."""
        try:
            repeated(lambda: self._client.touch(PREFIX + session, ttl=SECONDS))
            return True
        except ConflictError:
            return False

    def logout(self, session: str) -> None:
        """Ends a session."""
        repeated(lambda: self._client.delete(PREFIX + session))

    def live(self) -> Iterator[Tuple[str, str]]:
        """The sessions that are not over: the user and the ID of each."""
        for entity in self._client.scan(prefix=PREFIX):
            yield json.loads(entity.value)["user"], entity.key.decode()[len(PREFIX) :]


def answer(sessions: Sessions, command: str, argument: str) -> str:
    if command == "login":
        return sessions.login(argument)
    if command == "user":
        return sessions.user(argument) or "none"
    if command == "touch":
        return "ok" if sessions.touch(argument) else "none"
    if command == "logout":
        sessions.logout(argument)
        return "ok"
    if command == "list":
        return " ".join(f"{user}:{session}" for user, session in sessions.live())
    return "error: login USER, user ID, touch ID, logout ID or list"


def main() -> None:
    with Client(*sys.argv[1:], token=os.environ.get("KVORUM_TOKEN")) as client:
        for line in sys.stdin:
            command, _, argument = line.strip().partition(" ")
            print(answer(Sessions(client), command, argument), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs a session store of this folder while a node is killed and another one is added.

    KVORUM=target/release/kvorum examples/sessions/check.py COMMAND ...

COMMAND starts the program; the URLs of the nodes follow it. The package that it uses has to be
installed.
"""

import json
import pathlib
import random
import subprocess
import sys
import threading

NODES = pathlib.Path(__file__).resolve().parents[2] / "clients" / "testing" / "nodes.py"
LOGINS_MIN = 50


class Program:
    """A process that answers each line with a line."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"sessions: {self.process.args} ended")
        return line.strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def told(answer):
    parsed = json.loads(answer)
    if "error" in parsed:
        raise RuntimeError(parsed["error"])
    return parsed


def change(nodes, result):
    """Kills a node, waits until it is back, and adds another one."""
    try:
        for command in ("kill 1", "start 1", "ready 1", "add"):
            result.update(told(nodes.ask(command)))
    except RuntimeError as error:
        result["error"] = str(error)


def use(store, live, ended):
    """One login, and what may follow it."""
    user = random.choice(["ada", "grace", "edsger"])
    session = store.ask(f"login {user}")
    live[session] = user
    assert store.ask(f"user {session}") == user
    if random.random() < 0.5:
        over = random.choice(list(live))
        assert store.ask(f"logout {over}") == "ok"
        ended.append(over)
        del live[over]
        # A touch does not revive.
        assert store.ask(f"touch {over}") == "none" and store.ask(f"user {over}") == "none"
    if live:
        assert store.ask(f"touch {random.choice(list(live))}") == "ok"


def check_list(store, live):
    found = store.ask("list").split()
    assert sorted(found) == sorted(f"{user}:{session}" for session, user in live.items()), found


def main():
    nodes = Program(sys.executable, NODES)
    try:
        urls = told(nodes.read())["urls"]
        store = Program(*sys.argv[1:], *urls)
        live, ended, result = {}, [], {}
        use(store, live, ended)
        changing = threading.Thread(target=change, args=(nodes, result))
        changing.start()
        logins = 1
        while changing.is_alive() or logins < LOGINS_MIN:
            use(store, live, ended)
            logins += 1
            if logins % 20 == 0:
                check_list(store, live)
        changing.join()
        if "error" in result:
            sys.exit(f"sessions: the nodes were not changed: {result['error']}")
        check_list(store, live)
        assert store.close() == 0
        added = Program(*sys.argv[1:], result["url"])
        check_list(added, live)
        assert added.close() == 0
        print(f"sessions: {logins} logins, {len(ended)} logouts, {len(live)} live: ok")
    finally:
        nodes.close()


if __name__ == "__main__":
    main()

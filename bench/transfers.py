#!/usr/bin/env python3
"""A user's run over many entities: import, scan and export, while commands and nodes are killed.

Three nodes on this machine. `kvorum import` of the entities is killed in its middle (SIGKILL)
and goes on with --resume; `kvorum scan --prefix` runs while one node is killed;
`kvorum export` must give back the input to the last byte. Keys and values are text, bytes that
are no text, with ends of lines, empty, and some with an expiry.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/transfers.py [--kvorum target/dist/kvorum] [--entities 5000000]

5,000,000 entities take about 3 GB below the temporary folder.
"""

import base64
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from harness import WORK, Cluster, at_most, command_line, figure, print_summary, urls

PREFIX = b"user/"


def member(name, text):
    """A member of a line as the program writes it: text if it is UTF-8, otherwise base64."""
    try:
        return json.dumps(name) + ":" + json.dumps(text.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        return json.dumps(name + "_base64") + ":" + json.dumps(base64.b64encode(text).decode())


def entity(number, count):
    """Keys rise with the number: first bytes below text, then text, then bytes above it."""
    digits = b"%09d" % number
    filler = hashlib.blake2b(digits, digest_size=32).digest()
    if number < count // 10:
        key, value = b"\x00\n" + digits, filler * (number % 4)
    elif number < count // 10 * 9:
        key, value = PREFIX + digits, b'{"name":"' + filler.hex().encode() + b'"}\n'
    else:
        key, value = b"\xff\xfe" + digits, filler[: number % 33]
    expires = ',"expires":"2126-11-22T16:00:00Z"' if number % 5 == 0 else ""
    return "{" + member("key", key) + "," + member("value", value) + expires + "}\n"


def write_input(path, count):
    """The input, and how many of its keys have the prefix."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for number in range(count):
            # The escapes that JSON has a short form for are the only ones in the input.
            file.write(entity(number, count))
    return count // 10 * 9 - count // 10


class Commands:
    """Runs the commands of a program on the nodes of a cluster."""

    def __init__(self, program, cluster):
        self.program, self.urls = program, urls(cluster.all_ports)

    def command(self, *words):
        return [self.program, *words, "--url", self.urls]

    def run(self, *words):
        return subprocess.run(self.command(*words), check=True, stdout=subprocess.PIPE)


def timed(what, work):
    begin = time.monotonic()
    result = work()
    figure(what, time.monotonic() - begin, "s", decimals=1)
    return result


def position_of(file):
    try:
        return json.loads(file.read_text())["lines"]
    except (FileNotFoundError, json.JSONDecodeError):
        return 0


def import_with_a_kill(commands, source, count):
    """The import is killed once half of the lines are known to be stored."""
    position = pathlib.Path(f"{source}.position")
    running = subprocess.Popen(commands.command("import", source, "--progress"))
    while position_of(position) < count // 2:
        if running.poll() is not None:
            sys.exit("the import ended before it could be killed: give more entities")
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    print(f"  killed behind line {position_of(position)}", flush=True)
    commands.run("import", source, "--resume", "--progress")
    if position.exists():
        sys.exit("the position is still there")


def scan_with_a_kill(commands, node, source, expected):
    """One node is killed while the scan runs: the one that it asks first."""
    words = ("scan", "--prefix", PREFIX.decode(), "--json")
    running = subprocess.Popen(commands.command(*words), stdout=subprocess.PIPE)
    with open(source, encoding="utf-8") as file:
        wanted = (line for line in file if line.startswith('{"key":"user/'))
        found = 0
        for line in running.stdout:
            scanned, put = json.loads(line), json.loads(next(wanted))
            scanned.pop("version")
            if scanned != put:
                sys.exit(f"the scan gave {scanned}, and {put} was put")
            found += 1
            if found == expected // 10:
                node.process.kill()
    if running.wait() != 0 or found != expected:
        sys.exit(f"the scan ended with {running.returncode} after {found} of {expected} entities")


def main():
    parser = command_line(__doc__)
    parser.add_argument("--entities", type=int, default=5_000_000, help="how many entities (5000000)")
    arguments = parser.parse_args()
    source, exported = WORK / "input.ndjson", WORK / "export.ndjson"
    with_prefix = timed(f"{arguments.entities} entities written", lambda: write_input(source, arguments.entities))
    print(f"  {os.path.getsize(source) >> 20} MiB", flush=True)
    cluster = Cluster(arguments.kvorum, "transfers", 3, "--log", "error")
    commands = Commands(pathlib.Path(arguments.kvorum).resolve(), cluster)
    try:
        timed("import, killed once", lambda: import_with_a_kill(commands, source, arguments.entities))
        timed("scan, one node killed", lambda: scan_with_a_kill(commands, cluster.nodes[0], source, with_prefix))
        timed("export from two nodes", lambda: commands.run("export", exported, "--progress"))
    finally:
        cluster.stop()
    is_other = subprocess.run(["cmp", source, exported]).returncode != 0
    figure("exports that differ from the input", is_other, "of 1", at_most(0), 0)
    print_summary()
    sys.exit(is_other)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A user's run over many entities: import, scan and export, while commands and nodes are killed.

Three nodes on this machine. `kvorum import` of the entities is killed in its middle (SIGKILL)
and goes on with --resume; `kvorum scan --cluster --prefix` runs while one node is killed;
`kvorum export` must give back the input to the last byte. Keys and values are text, bytes that
are no text, with ends of lines, empty, and some with an expiry.

    bench/transfers.py target/release/kvorum [ENTITIES]

5,000,000 entities (the default) take about 3 GB below the temporary folder.
"""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NODES = 3
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


class Cluster:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        ports = range(18480, 18480 + NODES)
        self.urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.processes = [self.start(node) for node in range(NODES)]
        deadline = time.monotonic() + 60
        while self.run("put", "first", "v", "--ack", "3", check=False).returncode != 0:
            if time.monotonic() > deadline:
                sys.exit("the nodes do not come up")
            time.sleep(0.2)
        self.run("delete", "first", "--ack", "3")

    def start(self, node):
        command = [self.program, "serve", "--url", self.urls[node], "--cluster", ",".join(self.urls)]
        command += ["--data", self.folder / f"node-{node}", "--log", "error"]
        return subprocess.Popen(command)

    def command(self, *words):
        return [self.program, *words, "--url", ",".join(self.urls)]

    def run(self, *words, check=True):
        return subprocess.run(self.command(*words), check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE if not check else None)

    def kill(self, node):
        self.processes[node].kill()
        self.processes[node].wait()

    def stop(self):
        for process in self.processes:
            process.kill()


def timed(what, work):
    begin = time.monotonic()
    result = work()
    print(f"{what}: {time.monotonic() - begin:.1f} s", flush=True)
    return result


def position_of(file):
    try:
        return json.loads(file.read_text())["lines"]
    except (FileNotFoundError, json.JSONDecodeError):
        return 0


def import_with_a_kill(cluster, source, count):
    """The import is killed once half of the lines are known to be stored."""
    position = pathlib.Path(f"{source}.position")
    running = subprocess.Popen(cluster.command("import", source, "--progress"))
    while position_of(position) < count // 2:
        if running.poll() is not None:
            sys.exit("the import ended before it could be killed: give more entities")
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    print(f"killed behind line {position_of(position)}", flush=True)
    cluster.run("import", source, "--resume", "--progress")
    if position.exists():
        sys.exit("the position is still there")


def scan_with_a_kill(cluster, source, expected):
    """One node is killed while the scan runs: the one that it asks first."""
    words = ("scan", "--cluster", "--prefix", PREFIX.decode(), "--json")
    running = subprocess.Popen(cluster.command(*words), stdout=subprocess.PIPE)
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
                cluster.kill(0)
    if running.wait() != 0 or found != expected:
        sys.exit(f"the scan ended with {running.returncode} after {found} of {expected} entities")


def main():
    program, count = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 5_000_000
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kvorum-transfers-"))
    try:
        source, exported = folder / "input.ndjson", folder / "export.ndjson"
        with_prefix = timed(f"wrote {count} entities", lambda: write_input(source, count))
        print(f"{os.path.getsize(source) >> 20} MiB", flush=True)
        cluster = Cluster(program, folder)
        try:
            timed("import, killed once", lambda: import_with_a_kill(cluster, source, count))
            timed("scan, one node killed", lambda: scan_with_a_kill(cluster, source, with_prefix))
            timed("export from two nodes", lambda: cluster.run("export", exported, "--progress"))
        finally:
            cluster.stop()
        same = subprocess.run(["cmp", source, exported]).returncode == 0
        print("the export is the input, to the last byte" if same else "the export differs")
        sys.exit(0 if same else 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Backup and restore of three nodes: how fast, what clients feel of the cut, what a second one stores, and whether all is back.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/backup.py [--kvorum target/dist/kvorum] [--keys 1000000] [--value-bytes 512]

All nodes and the target are on this machine, so a backup reads and writes the same disk: its speed is a lower bound.
The digests are those of a GET of every key, value and version included, before the nodes are destroyed and after they
were restored into empty folders. 1,000,000 keys take about 4 GB below the temporary folder. `harness.py` says what is
shared with other benchmarks.
"""

import hashlib
import http.client
import json
import pathlib
import shutil
import subprocess
import sys
import threading
import time

from harness import WORK, Cluster, at_least, at_most, command_line, figure, latencies, load, percentile, print_summary, settle, urls

OPTIONS = ("--memory", "512MiB", "--log", "error", "--durability", "os")
# A run with a cut in its middle, short enough that the writes which wait for it are more than a hundredth.
CUT_SECONDS, CUT_RATE = 4, 500
# A batch of GETs.
BATCH = 10_000


def run(binary, *words):
    """Runs a command of the program, and returns what it prints."""
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"kvorum {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def back_up(binary, server):
    """A backup, and how many seconds it took."""
    begin = time.monotonic()
    text = run(binary, "admin", "backup", "nas", "--json", "--url", urls(server.all_ports))
    return json.loads(text), time.monotonic() - begin


def put_all(binary, server, keys, value_bytes, round_):
    """Puts keys by an import: each value is of its key and round."""
    path = WORK / "input.ndjson"
    with open(path, "w") as file:
        for key in keys:
            value = hashlib.blake2b(b"%d %d" % (key, round_), digest_size=32).hexdigest()
            value = (value * (value_bytes // len(value) + 1))[:value_bytes]
            file.write(f'{{"key":"key{key:08d}","value":"{value}"}}\n')
    run(binary, "import", path, "--ack", 3, "--from", 3, "--url", urls(server.all_ports))
    path.unlink()


def digest(port, keys):
    """The digest of a GET of every key, with its version."""
    connection, found = http.client.HTTPConnection("127.0.0.1", port), hashlib.sha256()
    for start in range(0, keys, BATCH):
        lines = "".join(f'{{"op":"get","key":"key{key:08d}"}}\n' for key in range(start, min(start + BATCH, keys)))
        connection.request("POST", "/v0/batch", lines, {"Content-Type": "application/x-ndjson"})
        answers = connection.getresponse().read().splitlines()
        missing = sum(b'"status":200' not in line for line in answers)
        if missing:
            sys.exit(f"{missing} of {len(answers)} keys were not found: {answers[0][:300]}")
        for line in answers:
            found.update(line)
    connection.close()
    return found.hexdigest()


def tables(server):
    """The tables of all nodes by node and name, with their bytes."""
    folders = {number: command[command.index("--data") + 1] for number, command in enumerate(server.commands)}
    listed = {}
    for number, folder in folders.items():
        for path in sorted(pathlib.Path(folder).glob("*.sst")):
            listed[number, path.name] = path.stat().st_size
    return listed


def cut_under_load(binary, server, keys):
    """Writes at a rate while a cut is made in their middle: the percentiles of their latencies."""
    made = {}
    timer = threading.Timer(CUT_SECONDS / 2, lambda: made.update(backup=back_up(binary, server)))
    timer.start()
    found = load(server.ports, "put", "--rate", CUT_RATE, "--duration", f"{CUT_SECONDS}s", "--warmup", "0",
                 "--keys", keys, "--value-bytes", 64, "--ack", 2, "--from", 3, "--verify", "off")
    timer.join()
    print(f"  writes over the cut: {latencies(found)}, failed {found['failed']}", flush=True)
    return found


def restore(binary, server, target, backup):
    """Restores all nodes into empty folders. Returns the seconds that took."""
    seconds = 0
    for command in server.commands:
        option = lambda name: command[command.index(name) + 1]
        shutil.rmtree(option("--data"))
        begin = time.monotonic()
        run(binary, "restore", "--from", target, "--backup", backup["id"], "--data", option("--data"),
            "--url", option("--url"), "--cluster", option("--cluster"))
        seconds += time.monotonic() - begin
    return seconds


def main():
    parser = command_line(__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000, help="how many keys (1000000)")
    parser.add_argument("--value-bytes", type=int, default=512, help="the length of a value (512)")
    arguments = parser.parse_args()
    binary, keys, target = arguments.kvorum, arguments.keys, WORK / "nas"
    target.mkdir()
    server = Cluster(binary, "backup", 3, *OPTIONS, "--backup-target", f"nas={target}")
    try:
        put_all(binary, server, range(keys), arguments.value_bytes, 1)
        settle(server)
        first, seconds = back_up(binary, server)
        mib = first["new_bytes"] / 2**20
        print(f"  {mib:.0f} MiB in {seconds:.1f} s", flush=True)
        figure("backup of three stores", mib / seconds, "MiB/s", at_least(100), 0)
        before = tables(server)
        put_all(binary, server, range(0, keys, 50), arguments.value_bytes, 2)
        settle(server)
        second, _ = back_up(binary, server)
        new = sum(size for table, size in tables(server).items() if table not in before)
        print(f"  the second one stored {second['new_bytes']} bytes; new tables have {new}", flush=True)
        figure("a second backup", second["new_bytes"] / new if new else None, "times the new tables", at_most(1.1))
        figure("p99 of writes over the cut", percentile(cut_under_load(binary, server, keys), 0.99), "ms", at_most(100), 1)
        settle(server)
        expected = digest(server.port, keys)
        last, _ = back_up(binary, server)
        for node in server.nodes:
            node.process.kill()
            node.process.wait()
        seconds = restore(binary, server, target, last)
        mib = last["bytes"] / 2**20
        print(f"  {mib:.0f} MiB restored in {seconds:.1f} s", flush=True)
        figure("restore of three stores", mib / seconds, "MiB/s", at_least(100), 0)
        for number in range(3):
            server.start(number)
        time.sleep(5)
        found = [digest(port, keys) for port in server.all_ports]
        figure("nodes whose digest of all GETs is another", sum(other != expected for other in found), "of 3", at_most(0), 0)
    finally:
        server.stop()
    print_summary()


main()

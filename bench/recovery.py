#!/usr/bin/env python3
"""How long a node that was killed needs to answer again, by the size of its log.

    cargo build --release
    python3 bench/recovery.py [--kvorum target/release/kvorum] [--value-bytes 1024] [--cold] [MIB ...]

For each size (4, 16, 64 and 256 MiB of keys and values by default, and 0 for an empty store) a node with so large
memtables that none is flushed takes that many bytes and is killed with SIGKILL. Then it starts again: the time until
the first answer to a GET counts from the start of the process, and the log that it read is as long as the node says
that it wrote. `--cold` empties the system's page cache first, which needs root: so the log is read from the disk. Each
size is measured three times; the median counts.
"""

import argparse
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time

from harness import WORK, free_port, metric, wait_for

MIB = 1 << 20
ROUNDS = 3
DEADLINE_SECONDS = 300


def start(arguments, name, port, mib):
    # An entry of 100 bytes takes three times as much memory as room in the log.
    memtable_mib = max(8, 4 * mib)
    command = [arguments.kvorum, "serve", "--url", f"http://127.0.0.1:{port}", "--data", str(WORK / name),
               "--durability", "os", "--memtable-bytes", f"{memtable_mib}MiB", "--memory", f"{max(128, 8 * memtable_mib)}MiB"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(WORK / "log", "a"))


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def seconds_until_answer(port, path):
    """The time from now until a GET of the path is answered 200, asked again and again."""
    began = time.monotonic()
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    while time.monotonic() - began < DEADLINE_SECONDS:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_SECONDS) as connection:
                connection.sendall(request)
                if b" 200 " in connection.makefile("rb").readline():
                    return time.monotonic() - began
        except OSError:
            pass
        time.sleep(0.002)
    sys.exit(f"no answer on port {port} within {DEADLINE_SECONDS} s")


def empty_page_cache():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def measure(arguments, mib):
    """The length of the log in MiB, and the seconds until a killed node answers."""
    name, port = f"recovery-{mib}", free_port()
    process = start(arguments, name, port, mib)
    wait_for(port, "/v0/status")
    keys = mib * MIB // arguments.value_bytes
    if keys:
        command = [arguments.kvorum, "load", "--target", f"http://127.0.0.1:{port}",
                   "--value-bytes", str(arguments.value_bytes), "fill", "--keys", str(keys)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    log_mib = metric(port, "kvorum_store_log_written_bytes_total") / MIB
    flushes = metric(port, "kvorum_store_flushes_total")
    kill(process)
    if flushes:
        sys.exit(f"{mib} MiB: {flushes:.0f} memtables were flushed, so the log is shorter than what was written")
    if arguments.cold:
        empty_page_cache()
    process = start(arguments, name, port, mib)
    path = "/v0/entity?id=000000000000k---" if keys else "/v0/status"
    seconds = seconds_until_answer(port, path)
    kill(process)
    return log_mib, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvorum", default="target/release/kvorum")
    parser.add_argument("--value-bytes", type=int, default=1024)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("mib", nargs="*", type=int, default=[0, 4, 16, 64, 256])
    arguments = parser.parse_args()
    print("     log MiB   seconds until it answers   MiB/s", flush=True)
    for mib in arguments.mib:
        rounds = []
        for number in range(ROUNDS):
            rounds.append(measure(arguments, mib))
            # Each round begins with an empty folder.
            subprocess.run(["rm", "-rf", str(WORK / f"recovery-{mib}")], check=True)
        log_mib = statistics.median(log for log, _ in rounds)
        seconds = statistics.median(seconds for _, seconds in rounds)
        rate = f"{log_mib / seconds:7.0f}" if mib else ""
        print(f"{log_mib:12.1f}   {seconds:24.3f}   {rate}", flush=True)


main()

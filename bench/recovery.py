#!/usr/bin/env python3
"""How long a node that was killed needs to answer again, by the size of its log.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/recovery.py [--kvorum target/dist/kvorum] [--pairs 3] [--value-bytes 1024] [--cold] [--reused] [MIB ...]

For each size of memtables (16, 64 and 256 MiB by default; 64 is the greatest default of a node) a node takes keys and
values of a part of that size, none of which is flushed, and is killed with SIGKILL. Then it starts again: the time
until the first answer counts from the start of the process. The log is as long as the node says that it wrote. A
segment of the log has room for a memtable from its start; a start should read only the part that was used, so an
empty log of a large memtable should take no longer than that of a small one. With `--reused` the node has flushed some
memtables and was restarted before, so that its log is in files that were segments before. `--cold` empties the
system's page cache first, which needs root: so the log is read from the disk.
"""

import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

from harness import WORK, at_most, command_line, figure, free_port, load, metric, print_verdicts, wait_for

MIB = 1 << 20
# The parts of a memtable that are written. An entry takes more room in memory than in the log.
PARTS = (0, 0.2, 0.6)
# So many are written before with --reused: enough for every file of the log to have been a segment before.
FLUSHED_MEMTABLES = 6
DEADLINE_SECONDS = 300


def start(arguments, name, port, memtable_mib):
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


def measure(arguments, memtable_mib, part):
    """The length of the log in MiB, and the seconds until a killed node answers."""
    name, port = "recovery", free_port()
    process = start(arguments, name, port, memtable_mib)
    wait_for(port, "/v0/status")
    if arguments.reused:
        keys = FLUSHED_MEMTABLES * memtable_mib * MIB // arguments.value_bytes
        load([port], "fill", "--value-bytes", arguments.value_bytes, "--keys", keys)
        process.terminate()
        process.wait()
        process = start(arguments, name, port, memtable_mib)
        wait_for(port, "/v0/status")
    keys = int(memtable_mib * part) * MIB // arguments.value_bytes
    if keys:
        load([port], "fill", "--value-bytes", arguments.value_bytes, "--keys", keys)
    log_mib = metric(port, "kvorum_store_log_written_bytes_total") / MIB
    flushes = metric(port, "kvorum_store_flushes_total")
    kill(process)
    if flushes:
        sys.exit(f"{memtable_mib} MiB: a memtable was flushed, so the log is shorter than what was written")
    if arguments.cold:
        empty_page_cache()
    process = start(arguments, name, port, memtable_mib)
    seconds = seconds_until_answer(port, "/v0/entity?id=000000000000k---" if keys else "/v0/status")
    kill(process)
    shutil.rmtree(WORK / name)
    return log_mib, seconds


def main():
    parser = command_line(__doc__, pairs=3)
    parser.add_argument("--value-bytes", type=int, default=1024, help="the length of a value (1024)")
    parser.add_argument("--cold", action="store_true", help="empty the page cache before each start")
    parser.add_argument("--reused", action="store_true", help="let the log begin in files that were segments before")
    parser.add_argument("mib", nargs="*", type=int, default=[16, 64, 256], help="sizes of memtables (16 64 256)")
    arguments = parser.parse_args()
    empty = []
    for memtable_mib in arguments.mib:
        for part in PARTS:
            rounds = [measure(arguments, memtable_mib, part) for _ in range(arguments.pairs)]
            log_mib, seconds = (statistics.median(figures) for figures in zip(*rounds))
            figure(f"memtable of {memtable_mib} MiB, log of {log_mib:.1f} MiB", seconds, "s until it answers", decimals=3)
            if part == 0:
                empty.append(seconds)
    if len(empty) > 1:
        figure("empty log, largest memtable", empty[-1] / empty[0], "times that of the smallest", at_most(1.5))
    print_verdicts()


main()

#!/usr/bin/env python3
"""Reads with data ten times the memory: one node, values of 1 KiB, keys chosen uniformly and by Zipf's law.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/larger_than_memory.py [--kvorum target/dist/kvorum] [--seconds 20] [--pairs 3] [--memory-mib 128]
                                        [--times 10] [--cache-mib 64] [CASE ...]

Cases: uniform zipfian memory; all by default. The node is filled and compacted, stopped, and started again in a
memory cgroup (which needs root). Its limit is one and a half budgets, which is what the node may take, and
--cache-mib, which leaves the system's page cache little room for tables: otherwise it would hold all of them. The
tables are dropped from the page cache before. Without cgroups only that is done, and the run says so: reads then get
faster as they go.

A closed loop over 64 connections gives the throughput; half of it, at a constant rate, gives the latencies. What was
read from the disk is what the system counts for the process, its readahead included.
"""

import os
import pathlib
import re
import statistics

from harness import WORK, Server, at_most, command_line, figure, free_port, load, metric, open_loop, percentile, resident_mib, run_cases, settle

MIB = 1 << 20
VALUE_BYTES = 1024


class MemoryLimit:
    """A memory cgroup for one process; `command` says how to start it there. Without cgroups it limits nothing."""

    def __init__(self, limit_bytes):
        # The hierarchy of all controllers, and the older one of memory alone.
        places = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))
        self.folder = None
        for place, name in places:
            folder = pathlib.Path(place) / f"kvorum-bench-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            # A new cgroup has its files; a folder where none is mounted has not.
            if (folder / name).exists():
                (folder / name).write_text(str(limit_bytes))
                self.folder = folder
                return
            folder.rmdir()

    def command(self, words):
        if self.folder is None:
            return words
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh", *words]

    def remove(self):
        if self.folder is not None:
            self.folder.rmdir()


def forget_pages(folder):
    """Has the system drop the files of a folder from its page cache."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_bytes(server):
    """What the process has had the disk read so far."""
    text = pathlib.Path(f"/proc/{server.process.pid}/io").read_text()
    return int(re.search(r"^read_bytes: (\d+)", text, re.M)[1])


def misses(server):
    """The blocks of tables that the node's cache did not have so far."""
    return metric(server.port, "kvorum_store_cache_misses_total")


def resident_mib_max(arguments):
    """What a node may take of the machine's memory."""
    return arguments.memory_mib * 3 // 2


class Node:
    """A node whose data is larger than its memory."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.keys = arguments.memory_mib * arguments.times * MIB // VALUE_BYTES
        self.folder = WORK / "larger"
        self.limit = MemoryLimit((resident_mib_max(arguments) + arguments.cache_mib) * MIB)
        filling = self.start(lambda words: words)
        self.load(filling, "fill")
        settle(filling)
        filling.stop()
        forget_pages(self.folder)
        size = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) / MIB
        limited = "the page cache is limited" if self.limit.folder else "the page cache is not limited: no memory cgroup can be made"
        print(f"  {self.keys} keys, {size:.0f} MiB on the disk, --memory {arguments.memory_mib}MiB; {limited}", flush=True)
        self.server = self.start(self.limit.command)

    def start(self, wrapped):
        port = free_port()
        words = [self.arguments.kvorum, "serve", "--url", f"http://127.0.0.1:{port}", "--data", str(self.folder),
                 "--memory", f"{self.arguments.memory_mib}MiB", "--durability", "os"]
        return Server(wrapped(words), port, "/health/ready")

    def load(self, server, *options):
        return load(server.ports, *options, "--keys", self.keys, "--value-bytes", VALUE_BYTES)

    def stop(self):
        self.server.stop()
        self.limit.remove()


def reads(arguments, node, choice):
    """Throughput, latency and reads of the disk of GETs, with one choice of keys."""
    found = []
    server = node.server
    options = ("--key-choice", choice, "--keys", node.keys, "--value-bytes", VALUE_BYTES)
    # The first reads fill the caches with what is popular.
    load(server.ports, "get", "--duration", f"{arguments.seconds}s", *options)
    for _ in range(arguments.pairs):
        misses_before, bytes_before, cpu_before = misses(server), read_bytes(server), server.cpu_seconds()
        run = load(server.ports, "get", "--warmup", "0", "--duration", f"{arguments.seconds}s", *options)
        gets = max(run["succeeded"], 1)
        rate = gets / run["measured_seconds"]
        one = {
            "rate": rate,
            "misses": (misses(server) - misses_before) / gets,
            "kib": (read_bytes(server) - bytes_before) / 1024 / gets,
            "cpu": (server.cpu_seconds() - cpu_before) / gets * 1e6,
            "p99": percentile(open_loop(server, "get", rate / 2, arguments.seconds, *options), 0.99),
        }
        found.append(one)
        print(f"  {choice}: {rate:.0f}/s, {one['cpu']:.1f} us of CPU, {one['misses']:.2f} misses of the cache and {one['kib']:.1f} KiB of the disk a GET; "
              f"p99 at half of that rate {one['p99']:.2f} ms; missing {run['missing']}, failed {run['failed'] or 'none'}", flush=True)
    units = {
        "rate": ("GETs a second", 0), "p99": ("ms p99 at half of that rate", 2), "misses": ("misses of the cache a GET", 2),
        "kib": ("KiB from the disk a GET", 1), "cpu": ("us of CPU a GET", 1),
    }  # fmt: skip
    for name, (unit, decimals) in units.items():
        figure(f"{choice}-{name}", statistics.median(run[name] for run in found), unit, decimals=decimals)


def main():
    parser = command_line(__doc__, cases=True, seconds=20, pairs=3)
    parser.add_argument("--memory-mib", type=int, default=128, help="the node's memory budget (128)")
    parser.add_argument("--times", type=int, default=10, help="the size of the data, in budgets (10)")
    parser.add_argument("--cache-mib", type=int, default=64, help="what the page cache may hold at least (64)")
    arguments = parser.parse_args()
    node = Node(arguments)
    goal = at_most(resident_mib_max(arguments))
    cases = {
        "uniform": lambda: reads(arguments, node, "uniform"),
        "zipfian": lambda: reads(arguments, node, "zipfian"),
        "memory": lambda: figure("memory", resident_mib(node.server.process.pid), "MiB resident at most", goal, 0),
    }
    try:
        run_cases(cases, arguments.cases)
    finally:
        node.stop()


main()

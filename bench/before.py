#!/usr/bin/env python3
"""Two builds beside each other: ranges of one node, and the CPU time of compaction.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/before.py --before OLDER/kvorum [--kvorum target/dist/kvorum] [--pairs 5] [--mib 512]

Each build fills a node with values of 1 KiB in random order, with compaction off. Then it is asked to merge all of its
tables: the CPU time of the thread that does it, beside the bytes that it wrote. (The order also flushes a memtable, which
another thread does.) That is done in pairs, of which every other one begins with the newer build. After the last one,
both nodes in turn stream all that they hold. Figures are the medians of the pairs' ratios of the newer build to the older one.
"""

import statistics

from harness import at_least, at_most, command_line, figure, kvorum, load, metric, post, print_verdicts, settle, thread_seconds
from ranges import VALUE_BYTES, told

MIB = 1 << 20


def filled(binary, name, mib):
    """A node with values in many tables that overlap."""
    server = kvorum(binary, name, "--memory", "512MiB", "--threads", "1", "--durability", "os", "--compaction", "off")
    options = ("--keys", mib * MIB // VALUE_BYTES, "--value-bytes", VALUE_BYTES)
    load(server.ports, "put", "--fill", "--duration", "1s", "--rate", "1", *options)
    settle(server)
    return server


def compacted(server):
    """Merges all tables. Returns the nanoseconds of CPU time for each byte that this wrote."""
    written = lambda: metric(server.port, "kvorum_store_compaction_written_bytes_total")
    cpu = lambda: thread_seconds(server.process.pid, "compaction")
    bytes_before, cpu_before = written(), cpu()
    post(server.port, "/v0/admin/compact?wait=true")
    return (cpu() - cpu_before) / (written() - bytes_before) * 1e9


def main():
    parser = command_line(__doc__, pairs=5)
    parser.add_argument("--before", required=True, help="the older build")
    parser.add_argument("--mib", type=int, default=512, help="the bytes of all values, in MiB (512)")
    arguments = parser.parse_args()
    servers, builds = {}, [("before", arguments.before), ("now", arguments.kvorum)]
    try:
        compactions = []
        for number in range(arguments.pairs):
            costs = {}
            for name, binary in builds[:: -1 if number % 2 else 1]:
                if name in servers:
                    servers.pop(name).stop()
                servers[name] = filled(binary, f"{name}-{number}", arguments.mib)
                costs[name] = compacted(servers[name])
                print(f"  {name}: compaction {costs[name]:.2f} ns of CPU a byte written", flush=True)
            compactions.append(costs["now"] / costs["before"])
        found = []
        for _ in range(arguments.pairs):
            rates = {}
            for name, server in servers.items():
                run = told(server.port, b"start=%00")
                rates[name] = run["bytes"] / run["took"] / MIB
            found.append(rates["now"] / rates["before"])
            print(f"  range: before {rates['before']:.0f} MiB/s, now {rates['now']:.0f} MiB/s", flush=True)
    finally:
        for server in servers.values():
            server.stop()
    figure("compaction", statistics.median(compactions), "of the CPU a byte before", at_most(0.5))
    figure("range", statistics.median(found), "times the MiB/s before", at_least(1.5))
    print_verdicts()


main()

#!/usr/bin/env python3
"""Server CPU time of an operation in a batch, beside that of a single PUT in the same run.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/batch.py [--kvorum target/dist/kvorum] [--beside BINARY] [--seconds 8] [--pairs 3] [--batch 100] [CASE ...]

Cases: one-sync one-os three-sync three-os rate; all by default. The values have 64 bytes, and `kvorum-lab load`
sends both loads. `rate` puts as much as it can into three nodes, and says what the CPU time that was measured
would allow on all cores, the generator included. `harness.py` says what is measured.
"""

import os
import resource
import statistics
import sys

from harness import CONNECTIONS, KEYS, Cluster, at_least, at_most, command_line, figure, kvorum, load, run_cases

# Each batch is a hundred operations, so fewer connections keep as many of them under way.
BATCH_CONNECTIONS = 16


def measured(arguments, server, batch=None):
    """CPU time of the nodes and of the generator for each operation, in microseconds, and operations per second."""
    asked = ("put", "--warmup", "0", "--duration", f"{arguments.seconds}s", "--keys", KEYS * 10)
    asked += ("--connections", BATCH_CONNECTIONS, "--batch", batch) if batch else ("--connections", CONNECTIONS)
    before, own_before = server.cpu_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run = load(server.ports, *asked)
    used, own = server.cpu_seconds() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    if run["failed"]:
        print(f"    note: failed {run['failed']}")
    operations = run["operations"] if batch else run["succeeded"]
    if not operations:
        sys.exit("no operation succeeded: give more seconds")
    generator = own.ru_utime + own.ru_stime - own_before.ru_utime - own_before.ru_stime
    return used / operations * 1e6, generator / operations * 1e6, operations / run["measured_seconds"]


def beside_single(arguments, name, goal, start):
    """The CPU time of an operation in a batch, as a share of a single PUT's."""
    server = start()
    shares = []
    try:
        for _ in range(arguments.pairs):
            single, _, single_rate = measured(arguments, server)
            many, _, rate = measured(arguments, server, arguments.batch)
            shares.append(many / single)
            print(f"  {name}: single {single:6.2f} us {single_rate:7.0f}/s   in batches of {arguments.batch} "
                  f"{many:6.2f} us {rate:8.0f}/s   share {many / single:.2f}", flush=True)
    finally:
        server.stop()
    figure(name, statistics.median(shares), "of a single PUT's CPU", at_most(goal))


def rate(arguments):
    """Puts into three nodes as fast as they take them."""
    server = cluster(arguments, "rate")
    found = []
    try:
        for _ in range(arguments.pairs):
            nodes, generator, each_second = measured(arguments, server, arguments.batch)
            allowed = os.cpu_count() * 1e6 / (nodes + generator)
            found.append((each_second, each_second / allowed))
            print(f"  rate: {each_second:8.0f} puts/s; nodes {nodes:.2f} us, generator {generator:.2f} us a put, "
                  f"which allow {allowed:.0f}/s on {os.cpu_count()} cores", flush=True)
    finally:
        server.stop()
    each_second, share = (statistics.median(column) for column in zip(*found))
    # Either is enough: how many the machine can take depends on its cores.
    figure("rate", each_second, "puts a second, or", at_least(120_000), 0)
    figure("rate-share", share, "of what the CPU allows", at_least(0.8))


def cluster(arguments, name, *options):
    """Three nodes that share the cores; a put needs two of them."""
    return Cluster(arguments.kvorum, name, 3, "--memory", "512MiB", "--threads", "1", *options)


def main():
    parser = command_line(__doc__, cases=True, seconds=8, pairs=3)
    parser.add_argument("--batch", type=int, default=100, help="operations in a batch (100)")
    arguments = parser.parse_args()
    one = lambda name, *options: lambda: beside_single(
        arguments, name, 0.25, lambda: kvorum(arguments.kvorum, name, "--memory", "1GiB", *options))
    three = lambda name, *options: lambda: beside_single(
        arguments, name, 0.333, lambda: cluster(arguments, name, *options))
    cases = {
        "one-sync": one("one-sync"),
        "one-os": one("one-os", "--durability", "os"),
        "three-sync": three("three-sync"),
        "three-os": three("three-os", "--durability", "os"),
        "rate": lambda: rate(arguments),
    }
    run_cases(cases, arguments)


main()

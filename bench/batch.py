#!/usr/bin/env python3
"""Server CPU time of an operation in a batch, beside that of a single PUT in the same run.

    cargo build --release
    python3 bench/batch.py [--kvorum target/release/kvorum] [--seconds 8] [--pairs 3] [--batch 100] [CASE ...]

Cases: one-sync one-os three-sync three-os rate; all by default. The values have 64 bytes, and `kvorum load`
sends both loads. `rate` puts as much as it can into three nodes, and says what the CPU time that was measured
would allow on all cores, the generator included. `harness.py` says what is measured.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess

from harness import CONNECTIONS, KEYS, Cluster, kvorum, run_cases

# Each batch is a hundred operations, so fewer connections keep as many of them under way.
BATCH_CONNECTIONS = 16
RATE_GOAL = 120_000
SHARE_GOAL = 0.8


def load(arguments, server, batch=None, threads=1):
    """CPU time of the nodes and of the generator for each operation, in microseconds, and operations per second."""
    command = [arguments.kvorum, "load", "put", "--json", "-", "--warmup", "0", "--duration", f"{arguments.seconds}s",
               "--threads", str(threads), "--keys", str(KEYS * 10),
               "--target", ",".join(f"http://127.0.0.1:{port}" for port in server.ports)]
    command += ["--connections", str(BATCH_CONNECTIONS), "--batch", str(batch)] if batch else ["--connections", str(CONNECTIONS)]
    before, own_before = server.cpu_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    used, own = server.cpu_seconds() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    run = json.loads(done.stdout)
    if run["failed"]:
        print(f"    note: failed {run['failed']}")
    operations = run["operations"] if batch else run["succeeded"]
    generator = own.ru_utime + own.ru_stime - own_before.ru_utime - own_before.ru_stime
    return used / operations * 1e6, generator / operations * 1e6, operations / run["measured_seconds"]


def beside_single(arguments, name, goal, start):
    """The CPU time of an operation in a batch, as a share of a single PUT's."""
    server = start()
    shares = []
    try:
        for _ in range(arguments.pairs):
            single, _, single_rate = load(arguments, server)
            many, _, rate = load(arguments, server, arguments.batch)
            shares.append(many / single)
            print(f"  {name}: single {single:6.2f} us {single_rate:7.0f}/s   in batches of {arguments.batch} "
                  f"{many:6.2f} us {rate:8.0f}/s   share {many / single:.2f}", flush=True)
    finally:
        server.stop()
    share = statistics.median(shares)
    print(f"{name}: {share:.2f} of a single PUT (goal {goal:.2f}) {'ok' if share <= goal else 'MISSED'}", flush=True)


def rate(arguments):
    """Puts into three nodes as fast as they take them."""
    server = cluster(arguments, "rate")
    found = []
    try:
        for _ in range(arguments.pairs):
            nodes, generator, each_second = load(arguments, server, arguments.batch)
            allowed = os.cpu_count() * 1e6 / (nodes + generator)
            found.append((each_second, each_second / allowed))
            print(f"  rate: {each_second:8.0f} puts/s; nodes {nodes:.2f} us, generator {generator:.2f} us a put, "
                  f"which allow {allowed:.0f}/s on {os.cpu_count()} cores", flush=True)
    finally:
        server.stop()
    each_second, share = (statistics.median(column) for column in zip(*found))
    ok = each_second >= RATE_GOAL or share >= SHARE_GOAL
    print(f"rate: {each_second:.0f} puts/s, {share:.0%} of what the CPU allows (goal {RATE_GOAL}/s or {SHARE_GOAL:.0%}) {'ok' if ok else 'MISSED'}", flush=True)


def cluster(arguments, name, *options):
    """Three nodes that share the cores; a put needs two of them."""
    return Cluster(arguments.kvorum, name, 3, "--memory", "512MiB", "--threads", "1", *options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--kvorum", default="target/release/kvorum")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=100)
    arguments = parser.parse_args()
    one = lambda name, *options: lambda: beside_single(
        arguments, name, 1 / 4, lambda: kvorum(arguments.kvorum, name, "--memory", "1GiB", *options))
    three = lambda name, *options: lambda: beside_single(
        arguments, name, 1 / 3, lambda: cluster(arguments, name, *options))
    cases = {
        "one-sync": one("one-sync"),
        "one-os": one("one-os", "--durability", "os"),
        "three-sync": three("three-sync"),
        "three-os": three("three-os", "--durability", "os"),
        "rate": lambda: rate(arguments),
    }
    run_cases(cases, arguments.cases)


main()

#!/usr/bin/env python3
"""Server CPU time of an operation in a batch, beside that of a single PUT in the same run; the rate of an import.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/batch.py [--kvorum target/dist/kvorum] [--beside BINARY] [--seconds 8] [--pairs 3] [--batch 100] [CASE ...]

Cases: one-sync one-os three-sync three-os pipeline rate import; all by default. The values have 64 bytes, and
`kvorum-lab load` sends both loads. `pipeline` sends the batches to one of three nodes over one connection, several of
which wait for their answers at a time. `rate` puts as much as it can into three nodes, and says what the CPU time that
was measured would allow on all cores, the generator included. `import` fills three nodes, synced, with 600 MB of values
of 1 KiB and of 200 bytes. `harness.py` says what is measured.
"""

import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time

from harness import CONNECTIONS, KEYS, WORK, Cluster, at_least, at_most, command_line, figure, kvorum, load, run_cases, urls

# Each batch is a hundred operations, so fewer connections keep as many of them under way.
BATCH_CONNECTIONS = 16

# How many batches of a pipeline wait for their answers.
PIPELINE = 16

# The values of an import, in bytes, and the length of each.
IMPORTED_BYTES = 600_000_000
IMPORTED_LENGTHS = (1024, 200)

# The characters of imported values: text as an application stores it, in which some have to be escaped.
CHARACTERS = b'abcdefghijklmnopqrstuvwxyz0123456789 ,.:;-_/ABCDEFGHIJKLMNOPQRST"'


def measured(arguments, server, batch=None, pipeline=None):
    """CPU time of the nodes and of the generator for each operation, in microseconds, and operations per second."""
    asked = ("put", "--warmup", "0", "--duration", f"{arguments.seconds}s", "--keys", KEYS * 10)
    asked += ("--batch", batch) if batch else ()
    asked += ("--pipeline", pipeline) if pipeline else ()
    asked += ("--connections", 1 if pipeline else BATCH_CONNECTIONS if batch else CONNECTIONS)
    before, own_before = server.cpu_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run = load(server.ports[:1] if pipeline else server.ports, *asked)
    used, own = server.cpu_seconds() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    if run["failed"]:
        print(f"    note: failed {run['failed']}")
    operations = run["operations"] if batch else run["succeeded"]
    if not operations:
        sys.exit("no operation succeeded: give more seconds")
    generator = own.ru_utime + own.ru_stime - own_before.ru_utime - own_before.ru_stime
    return used / operations * 1e6, generator / operations * 1e6, operations / run["measured_seconds"]


def beside_single(arguments, name, goal, start, pipeline=None):
    """The CPU time of an operation in a batch, as a share of a single PUT's."""
    server = start()
    shares = []
    try:
        for _ in range(arguments.pairs):
            single, _, single_rate = measured(arguments, server)
            many, _, rate = measured(arguments, server, arguments.batch, pipeline)
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


def write_entities(path, length, count):
    """Entities in a random order, each with a value of its own."""
    numbers = random.Random(length)
    # Each of 256 bytes is one of the characters.
    table = bytes(CHARACTERS[byte % len(CHARACTERS)] for byte in range(256))
    order = list(range(count))
    numbers.shuffle(order)
    with open(path, "w", encoding="utf-8") as file:
        for key in order:
            value = json.dumps(numbers.randbytes(length).translate(table).decode())
            file.write(f'{{"key":"user/{key:012}","value":{value}}}\n')
    os.sync()


def import_rate(arguments):
    """An import into three empty nodes, which sync each write."""
    for length in IMPORTED_LENGTHS:
        count, source = IMPORTED_BYTES // length, WORK / f"{length}.ndjson"
        write_entities(source, length, count)
        rates = []
        for turn in range(arguments.pairs):
            server = Cluster(arguments.kvorum, f"import-{length}-{turn}", 3, "--memory", "1GiB")
            try:
                before, begin = server.cpu_seconds(), time.monotonic()
                subprocess.run([arguments.kvorum, "import", source, "--url", urls(server.ports)], check=True, stderr=subprocess.DEVNULL)
                took, used = time.monotonic() - begin, server.cpu_seconds() - before
            finally:
                server.stop()
            rates.append(count * length / took / 1e6)
            print(f"  import of {length} B: {rates[-1]:.1f} MB of values a second, {count / took:.0f} entities; "
                  f"nodes {used / count * 1e6:.2f} us an entity, {used / took:.2f} cores", flush=True)
            shutil.rmtree(WORK / f"import-{length}-{turn}")
        figure(f"import-{length}", statistics.median(rates), "MB of values a second", at_least(60) if length == 1024 else None, 1)
        source.unlink()


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
        "pipeline": lambda: beside_single(arguments, "pipeline", 0.25, lambda: cluster(arguments, "pipeline"), PIPELINE),
        "rate": lambda: rate(arguments),
        "import": lambda: import_rate(arguments),
    }
    run_cases(cases, arguments)


main()

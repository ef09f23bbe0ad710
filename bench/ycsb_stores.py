#!/usr/bin/env python3
"""YCSB A to F on three nodes of Kvorum, of etcd and of Cassandra, one store after another.

    cargo build --release
    python3 bench/ycsb_stores.py [--kvorum target/release/kvorum] [--pairs 1] [--records 100000] [--operations 60000]
                                 [--seconds 60] [--only TEXT] [WORKLOAD ...]

The workloads are YCSB's own, by their letters: a b c f d e, in the order that YCSB recommends, with new nodes for e.
Records are one value of 1,000 bytes. 32 threads of YCSB are a closed loop: each sends its next operation when it has
an answer. A run ends after --operations, or after --seconds. All writes are synced on two of three nodes before they
are acknowledged, and reads see them: Kvorum with 2/3 and `sync`, etcd as it comes (linearizable), Cassandra with
QUORUM and `commitlog_sync: batch`.

What differs. Nodes of Kvorum have one thread and a budget of 512 MiB, those of etcd no limits, those of Cassandra a
heap of 1 GiB. etcd orders all writes of the cluster through one leader, and keeps all versions of a value. Ranges of
Kvorum and of etcd are in the order of the keys, those of Cassandra in that of their hashes. A read-modify-write is
not atomic in any of them. A node of Kvorum refuses ranges for which it has no memory; its client asks again after some
milliseconds. The clients are Java's HTTP client, jetcd and Cassandra's driver, and share the cores with
the nodes; so the CPU time of the nodes says more than the rate.

It needs a JDK 17 and Maven, and Go for etcd. A store that cannot be installed is left out, and the run says why.
"""

import dataclasses
import shutil
import statistics
import sys

import cassandra
import stores
import ycsb
from harness import WORK, at_most, command_line, figure, print_verdicts, urls

WORKLOADS = {
    "a": {"readproportion": 0.5, "updateproportion": 0.5},
    "b": {"readproportion": 0.95, "updateproportion": 0.05},
    "c": {"readproportion": 1},
    "f": {"readproportion": 0.5, "readmodifywriteproportion": 0.5},
    "d": {"readproportion": 0.95, "insertproportion": 0.05, "requestdistribution": "latest"},
    "e": {"scanproportion": 0.95, "insertproportion": 0.05, "maxscanlength": 100},
}
# Those that would make the keys of the others different get nodes of their own.
ALONE = ("e",)
MIX = {"readproportion": 0, "updateproportion": 0, "insertproportion": 0, "scanproportion": 0, "readmodifywriteproportion": 0}


@dataclasses.dataclass(frozen=True)
class Store:
    """How a store is started, and which binding of YCSB it has."""

    name: str
    start: object  # takes the programs and a folder, returns stores.Running
    classes: str
    database: str
    properties: object  # of YCSB, from the ports of the nodes


def kvorum(arguments):
    ycsb.build()
    found, missing = stores.programs(arguments.kvorum, set())
    if missing:
        sys.exit(f"kvorum: {missing['kvorum']}")
    properties = lambda ports: {"kvorum.urls": urls(ports), "kvorum.replicas": "2/3", "kvorum.scope": "cluster"}
    start = stores.start_kvorums("--durability", "sync")
    return Store("kvorum", lambda folder: start(found, folder), ycsb.CLASSES, ycsb.DATABASE, properties)


def etcd(arguments):
    found, missing = stores.programs(arguments.kvorum, {"etcd"})
    if "etcd" in missing or not ycsb.fetch(cassandra.CLIENTS, "package"):
        print(f"  etcd is left out: {missing.get('etcd', 'Maven could not build its binding')}", flush=True)
        return None
    start = stores.start_etcd(3)
    return Store("etcd", lambda folder: start(found, folder), cassandra.CLASSES, "bench.EtcdDb", lambda ports: {"etcd.endpoints": urls(ports)})


def cassandra_store(arguments):
    if not (ycsb.fetch(cassandra.SERVER) and ycsb.fetch(cassandra.CLIENTS, "package")):
        print("  Cassandra is left out: Maven could not fetch it", flush=True)
        return None
    properties = lambda ports: {"cassandra.hosts": ",".join(cassandra.HOSTS), "cassandra.port": ports[0]}
    return Store("cassandra", cassandra.start, cassandra.CLASSES, "bench.CassandraDb", properties)


def run(store, running, arguments, letter):
    """Runs a workload. Returns its figures, with the CPU time of the nodes."""
    properties = {
        "requestdistribution": "zipfian", **MIX, **WORKLOADS[letter], **common(store, running, arguments),
        "operationcount": arguments.operations, "maxexecutiontime": arguments.seconds,
    }  # fmt: skip
    before = sum(running.cpu_seconds())
    found = ycsb.reported(ycsb.ycsb(store.classes, store.database, properties, "-t"))
    used = sum(running.cpu_seconds()) - before
    return {**found, "cpu": used / max(found["operations"], 1) * 1e6}


def common(store, running, arguments):
    return {**store.properties(running.ports), "recordcount": arguments.records, "fieldlength": 1000}


def run_group(store, arguments, name, letters, found):
    """Starts a store, loads the records and runs workloads on them."""
    folder = WORK / f"{store.name}-{name}"
    running = store.start(folder)
    try:
        ycsb.ycsb(store.classes, store.database, common(store, running, arguments), "-load")
        for letter in letters:
            one = run(store, running, arguments, letter)
            found.setdefault((letter, store.name), []).append(one)
            print(f"  {letter} {store.name}: {one['rate']:.0f}/s, failed {one['failed']}, CPU {one['cpu']:.0f} us; "
                  f"mean ms: {ycsb.written(one['mean'])}; p99 ms: {ycsb.written(one['p99'])}", flush=True)
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = command_line(__doc__, seconds=60, pairs=1)
    parser.add_argument("--records", type=int, default=100_000, help="records (100000)")
    parser.add_argument("--operations", type=int, default=60_000, help="operations of a run (60000)")
    parser.add_argument("--only", default="", help="only the stores whose names contain this text")
    parser.add_argument("workloads", nargs="*", help="letters of workloads (all)")
    arguments = parser.parse_args()
    chosen = [letter for letter in WORKLOADS if letter in (arguments.workloads or WORKLOADS)]
    if not chosen:
        sys.exit(f"choose workloads from {' '.join(WORKLOADS)}")
    ycsb.need("mvn", "java")
    makers = {"kvorum": kvorum, "etcd": etcd, "cassandra": cassandra_store}
    compared = [store for name, make in makers.items() if arguments.only in name and (store := make(arguments))]
    found = {}
    for pair in range(arguments.pairs):
        for store in compared:
            groups = [[letter for letter in chosen if letter not in ALONE], *([letter] for letter in chosen if letter in ALONE)]
            for number, letters in enumerate(filter(None, groups)):
                try:
                    run_group(store, arguments, f"{pair}-{number}", letters, found)
                except stores.StoreFailed as failure:
                    print(f"  {store.name} failed: {failure}", flush=True)
    for letter in chosen:
        for store in compared:
            if runs := found.get((letter, store.name)):
                median = lambda what: statistics.median(run[what] for run in runs)
                figure(f"{letter} {store.name}: operations", median("rate"), "a second", decimals=0)
                figure(f"{letter} {store.name}: CPU of the nodes", median("cpu"), "us an operation", decimals=0)
                figure(f"{letter} {store.name}: failed", sum(run["failed"] for run in runs), "operations", at_most(0), 0)
                figure(f"{letter} {store.name}: p99", statistics.median(max(run["p99"].values()) for run in runs), "ms, of the slowest operation")
    print_verdicts()


main()

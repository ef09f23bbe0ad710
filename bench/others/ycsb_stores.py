#!/usr/bin/env python3
"""YCSB A to F on three nodes of Kvorum, of etcd and of Cassandra, one store after another.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/others/ycsb_stores.py [--kvorum target/dist/kvorum] [--stores kvorum etcd cassandra]
                                 [--workloads a b c f d e] [--records 100000] [--value-bytes 1000]
                                 [--operations 60000] [--seconds 60] [--threads 32] [--pairs 1] [--install]

The workloads are YCSB's own, by their letters, in the order that YCSB recommends, with new nodes for e. A record is
one value. The threads of YCSB are a closed loop: each sends its next operation when it has an answer. A run ends
after --operations, or after --seconds. All writes are synced on two of three nodes before they are acknowledged, and
reads see them: Kvorum with 2/3 and `sync`, etcd as it comes (linearizable), Cassandra with QUORUM and
`commitlog_sync: batch`.

What differs. Nodes of Kvorum have one thread and a budget of 512 MiB, those of etcd no limits, those of Cassandra a
heap of 1 GiB. etcd orders all writes of the cluster through one leader, and keeps all versions of a value. Ranges of
Kvorum and of etcd are in the order of the keys, those of Cassandra in that of their hashes. A read-modify-write is
not atomic in any of them. A node of Kvorum refuses ranges for which it has no memory; its client asks again after some
milliseconds. The clients are Java's HTTP client, jetcd and Cassandra's driver, and share the cores with
the nodes; so the CPU time of the nodes says more than the rate.

It needs a JDK 17 and Maven, and Go for etcd; --install only installs the stores, which takes some minutes once. A
store that cannot be installed, does not start, or fails is left out, and the run says why.
"""

import collections
import dataclasses
import pathlib
import sys
import shutil
import statistics

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cassandra
import stores
import ycsb
from harness import WORK, Steal, at_most, command_line, figure, print_summary, urls

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
# How long all records may take.
LOAD_SECONDS_MAX = 300
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
    if not ycsb.fetch(ycsb.BINDING, "package"):
        raise stores.StoreFailed("Maven could not build its binding")
    found, missing = stores.programs(arguments.kvorum, set())
    if missing:
        raise stores.StoreFailed(missing["kvorum"])
    properties = lambda ports: {"kvorum.urls": urls(ports), "kvorum.replicas": "2/3", "kvorum.scope": "cluster"}
    start = stores.start_kvorums("--durability", "sync")
    return Store("kvorum", lambda folder: start(found, folder), ycsb.CLASSES, ycsb.DATABASE, properties)


def etcd(arguments):
    found, missing = stores.programs(arguments.kvorum, {"etcd"})
    if "etcd" in missing:
        raise stores.StoreFailed(missing["etcd"])
    if not ycsb.fetch(cassandra.CLIENTS, "package"):
        raise stores.StoreFailed("Maven could not build its binding")
    start = stores.start_etcd(3)
    return Store("etcd", lambda folder: start(found, folder), cassandra.CLASSES, "bench.EtcdDb", lambda ports: {"etcd.endpoints": urls(ports)})


def cassandra_store(arguments):
    if not (ycsb.fetch(cassandra.SERVER) and ycsb.fetch(cassandra.CLIENTS, "package")):
        raise stores.StoreFailed("Maven could not fetch it")
    properties = lambda ports: {"cassandra.hosts": ",".join(cassandra.HOSTS), "cassandra.port": ports[0]}
    return Store("cassandra", cassandra.start, cassandra.CLASSES, "bench.CassandraDb", properties)


STORES = {"kvorum": kvorum, "etcd": etcd, "cassandra": cassandra_store}


def common(store, running, arguments):
    return {**store.properties(running.ports), "recordcount": arguments.records, "fieldlength": arguments.value_bytes}


def load(store, running, arguments):
    """Inserts the records. All must be there, or reads would miss them."""
    # A store that has just started may be late with one; by default that ends the thread of YCSB that had it.
    properties = {**common(store, running, arguments), "core_workload_insertion_retry_limit": 10}
    text = ycsb.ycsb(store.classes, store.database, properties, "-load", threads=arguments.threads, seconds=LOAD_SECONDS_MAX)
    found = ycsb.reported(text)
    if found["operations"] < arguments.records:
        raise stores.StoreFailed(f"{found['operations']:.0f} of {arguments.records} records were loaded; failed {found['failed'] or 'none'}")
    print(f"  {store.name}: {arguments.records} records loaded, {found['rate']:.0f}/s", flush=True)


def run(store, running, arguments, letter):
    """Runs a workload. Returns its figures, with the CPU time of the nodes."""
    properties = {
        "requestdistribution": "zipfian", **MIX, **WORKLOADS[letter], **common(store, running, arguments),
        "operationcount": arguments.operations,
    }  # fmt: skip
    steal, before = Steal(), sum(running.cpu_seconds())
    text = ycsb.ycsb(store.classes, store.database, properties, "-t", threads=arguments.threads, seconds=arguments.seconds)
    used = sum(running.cpu_seconds()) - before
    found = ycsb.reported(text)
    if not found["operations"]:
        raise stores.StoreFailed(f"no operation of {letter} succeeded: {found['failed']}")
    return {**found, "cpu": used / found["operations"] * 1e6, "stolen": steal.share() or 0}


def run_group(store, arguments, name, letters, found):
    """Starts a store, loads the records and runs workloads on them."""
    folder = WORK / f"{store.name}-{name}"
    running = store.start(folder)
    try:
        load(store, running, arguments)
        for letter in letters:
            one = run(store, running, arguments, letter)
            found.setdefault((letter, store.name), []).append(one)
            print(f"  {letter} {store.name}: {ycsb.said(one)}; the host took {one['stolen']:.1%} of the cores", flush=True)
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def print_figures(found, chosen, names):
    """The figures of each workload, store beside store."""
    for letter in chosen:
        for name in names:
            if runs := found.get((letter, name)):
                median = lambda what: statistics.median(run[what] for run in runs)
                failed = collections.Counter()
                for run in runs:
                    failed.update(run["failed"])
                by_status = ", ".join(f"{status} {count}" for status, count in failed.items())
                figure(f"{letter} {name}: operations", median("rate"), "a second", decimals=0)
                figure(f"{letter} {name}: CPU of the nodes", median("cpu"), "us an operation", decimals=0)
                figure(f"{letter} {name}: p99", statistics.median(max(run["p99"].values()) for run in runs), "ms, of the slowest operation")
                figure(f"{letter} {name}: failed", failed.total(), f"operations{by_status and ': '}{by_status}", at_most(0), 0)


def installed(arguments):
    """The stores that are there, by name, and why others are not."""
    compared, left_out = {}, {}
    for name in arguments.stores:
        try:
            compared[name] = STORES[name](arguments)
        except stores.StoreFailed as failure:
            left_out[name] = str(failure)
        print(f"  {name}: {left_out.get(name, 'installed')}", flush=True)
    return compared, left_out


def main():
    parser = command_line(__doc__, seconds=60, pairs=1)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES), help="the stores (all)")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="letters of workloads (all)")
    parser.add_argument("--records", type=int, default=100_000, help="records (100000)")
    parser.add_argument("--value-bytes", type=int, default=1000, help="the length of a record (1000)")
    parser.add_argument("--operations", type=int, default=60_000, help="operations of a run at most (60000)")
    parser.add_argument("--threads", type=int, default=ycsb.THREADS, help=f"threads of YCSB ({ycsb.THREADS})")
    parser.add_argument("--install", action="store_true", help="install the stores, and end")
    arguments = parser.parse_args()
    ycsb.need("mvn", "java")
    compared, left_out = installed(arguments)
    if arguments.install:
        return
    chosen = [letter for letter in WORKLOADS if letter in arguments.workloads]
    groups = [[letter for letter in chosen if letter not in ALONE], *([letter] for letter in chosen if letter in ALONE)]
    found = {}
    for pair in range(arguments.pairs):
        for name, store in compared.items():
            for number, letters in enumerate(filter(None, groups)):
                try:
                    run_group(store, arguments, f"{pair}-{number}", letters, found)
                except (stores.StoreFailed, ycsb.YcsbFailed) as failure:
                    left_out[name] = f"{' '.join(letters)}: {failure}"
                    print(f"  {name} failed: {failure}", flush=True)
    print_figures(found, chosen, compared)
    for name, reason in left_out.items():
        print(f"  {name} is left out, wholly or in part: {reason}", flush=True)
    print_summary()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""YCSB beside `kvorum-lab load ycsb-a`: the same work, the same nodes, the same rate.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/others/ycsb.py [--kvorum target/dist/kvorum] [--seconds 15] [--pairs 2] [--records 10000] [--rate 800]

Three nodes on this machine. Each of the two loads records of one field of 64 bytes and runs
workload A (half reads, half updates, Zipf's law) with 2/3, in turn. It needs a JDK, 17 or
newer, and Maven, which builds the binding of examples/ycsb and fetches YCSB.
"""

import pathlib
import re
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import Cluster, command_line, figure, load, percentile, print_summary, urls

BINDING = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ycsb"
CLASSES = f"{BINDING}/target/*:{BINDING}/target/dependency/*"
DATABASE = "kvorum.KvorumDb"
THREADS = 32
# How long Maven may take, with nothing fetched yet, and YCSB beyond the time that a run is given.
BUILD_SECONDS_MAX = 900
ENDING_SECONDS_MAX = 60
# What all runs of YCSB have in common: a record is one value.
PROPERTIES = {"workload": "site.ycsb.workloads.CoreWorkload", "fieldcount": 1, "writeallfields": "true"}
# The operations whose latencies YCSB reports.
OPERATIONS = ("READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE")


class YcsbFailed(Exception):
    """A run of YCSB failed, or took too long; the text says why."""


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            sys.exit(f"ycsb: {program} is missing: install Maven and a JDK, 17 or newer")


def fetch(folder, *goals):
    """Has Maven build a project and fetch its libraries, unless it has. Returns whether they are there."""
    libraries = folder / "target" / "dependency"
    sources = [folder / "pom.xml", *(folder / "src").rglob("*.java")]
    if libraries.exists() and libraries.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return True
    print(f"  Maven builds {folder.name}", flush=True)
    command = ["mvn", "-q", "-B", "-f", folder / "pom.xml", *goals, "dependency:copy-dependencies"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=BUILD_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        print(f"  it has not ended within {BUILD_SECONDS_MAX} s", flush=True)
        return False
    if done.returncode:
        print(f"  {done.stdout.strip()[:500]}", flush=True)
    else:
        libraries.touch()
    return done.returncode == 0


def build():
    """Builds the binding for Kvorum, unless it is there."""
    need("mvn", "java")
    if not fetch(BINDING, "package"):
        sys.exit("ycsb: examples/ycsb cannot be built")


def ycsb(classes, database, properties, *options, threads=THREADS, seconds=None):
    """What YCSB prints. It is given so many seconds, if any, and a minute to end."""
    command = ["java", "-cp", classes, "site.ycsb.Client", "-db", database, "-threads", str(threads), *options]
    limit = {} if seconds is None else {"maxexecutiontime": seconds}
    for name, value in {**PROPERTIES, **properties, **limit}.items():
        command += ["-p", f"{name}={value}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds and seconds + ENDING_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise YcsbFailed(f"YCSB has not ended within {seconds + ENDING_SECONDS_MAX} s") from None
    if done.returncode:
        raise YcsbFailed(f"YCSB ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def reported(text):
    """The figures of a run of YCSB: operations and their rate, failures, and milliseconds by operation."""

    def value(section, name):
        found = re.search(rf"\[{section}\], {re.escape(name)}, ([\d.]+)", text)
        return float(found[1]) if found else 0.0

    done = {kind: value(kind, "Operations") for kind in OPERATIONS}
    milliseconds = lambda name: {kind.lower(): value(kind, name) / 1e3 for kind in OPERATIONS if done[kind]}
    # A read-modify-write is also counted as a read and as an update.
    operations = sum(done.values()) - 2 * done["READ-MODIFY-WRITE"]
    failed = {f"{kind.lower()} {status}": int(count) for kind, status, count in re.findall(r"\[([\w-]+)\], Return=(?!OK,)([^,]+), (\d+)", text)}
    return {
        # Those that succeeded: YCSB's own throughput has the others in it.
        "operations": operations,
        "rate": operations / max(value("OVERALL", "RunTime(ms)"), 1) * 1e3,
        "failed": failed,
        "mean": milliseconds("AverageLatency(us)"),
        "p99": milliseconds("99thPercentileLatency(us)"),
    }


def with_ycsb(server, arguments):
    """Loads the records, and runs the workload."""
    properties = {
        "kvorum.urls": urls(server.ports), "kvorum.replicas": "2/3", "recordcount": arguments.records, "fieldlength": 64,
        "operationcount": arguments.rate * arguments.seconds, "requestdistribution": "zipfian", "readproportion": 0.5, "updateproportion": 0.5,
    }  # fmt: skip
    ycsb(CLASSES, DATABASE, properties, "-load")
    before = server.cpu_seconds()
    run = reported(ycsb(CLASSES, DATABASE, properties, "-t", "-target", str(arguments.rate)))
    return {**run, "cpu": (server.cpu_seconds() - before) / run["operations"] * 1e6}


def with_load(server, arguments):
    """The same with the load generator, which does not tell reads from updates."""
    load(server.ports, "fill", "--keys", arguments.records, "--ack", "2", "--from", "3")
    before = server.cpu_seconds()
    run = load(
        server.ports, "ycsb-a", "--keys", arguments.records, "--rate", arguments.rate, "--warmup", "0",
        "--duration", f"{arguments.seconds}s", "--connections", THREADS, "--ack", "2", "--from", "3",
    )  # fmt: skip
    return {
        "rate": run["succeeded"] / run["measured_seconds"],
        "failed": run["failed"],
        "mean": {"all": run["latency"]["mean_ms"]},
        "p99": {"all": percentile(run, 0.99)},
        "cpu": (server.cpu_seconds() - before) / run["succeeded"] * 1e6,
    }


def written(milliseconds):
    """Latencies by operation, as text."""
    return ", ".join(f"{kind} {value:.2f}" for kind, value in milliseconds.items())


def said(run):
    """A run, as a detail."""
    return (f"{run['rate']:.0f}/s, failed {run['failed'] or 'none'}, CPU {run['cpu']:.0f} us; "
            f"mean ms: {written(run['mean'])}; p99 ms: {written(run['p99'])}")  # fmt: skip


def main():
    parser = command_line(__doc__, seconds=15, pairs=2)
    parser.add_argument("--records", type=int, default=10_000, help="records (10000)")
    parser.add_argument("--rate", type=int, default=800, help="operations a second (800)")
    arguments = parser.parse_args()
    build()
    generators = {"ycsb": with_ycsb, "load": with_load}
    found = {name: [] for name in generators}
    for pair in range(arguments.pairs):
        server = Cluster(arguments.kvorum, f"ycsb-{pair}", 3, "--memory", "512MiB", "--threads", "1")
        try:
            for name, measure in generators.items():
                run = measure(server, arguments)
                found[name].append(run)
                print(f"  {name}: {said(run)}", flush=True)
        except YcsbFailed as failure:
            sys.exit(f"ycsb: {failure}")
        finally:
            server.stop()
    for name, runs in found.items():
        figure(f"{name}: operations", statistics.median(run["rate"] for run in runs), "a second", decimals=0)
        figure(f"{name}: CPU of the nodes", statistics.median(run["cpu"] for run in runs), "us an operation", decimals=0)
        figure(f"{name}: p99", statistics.median(max(run["p99"].values()) for run in runs), "ms, of the slowest operation")
    print_summary()


if __name__ == "__main__":
    main()

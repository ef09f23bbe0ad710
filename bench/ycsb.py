#!/usr/bin/env python3
"""YCSB beside `kvorum load ycsb-a`: the same work, the same nodes, the same rate.

    cargo build --release
    python3 bench/ycsb.py [--kvorum target/release/kvorum] [--records 10000] [--rate 800] [--seconds 15] [--rounds 2]

Three nodes on this machine. Each of the two loads records of one field of 64 bytes and runs
workload A (half reads, half updates, Zipf's law) with 2/3, in turn. It needs a JDK, 17 or
newer, and Maven, which builds the binding of examples/ycsb and fetches YCSB.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from harness import Cluster

BINDING = pathlib.Path(__file__).resolve().parent.parent / "examples" / "ycsb"
THREADS = 32


def build():
    """Builds the binding, unless it is there."""
    if not (BINDING / "target" / "dependency").exists():
        for program in ("mvn", "java"):
            if shutil.which(program) is None:
                sys.exit(f"ycsb: {program} is missing: install Maven and a JDK, 17 or newer")
        print("ycsb: building examples/ycsb", flush=True)
        goals = ["package", "dependency:copy-dependencies"]
        subprocess.run(["mvn", "-q", "-f", BINDING / "pom.xml", *goals], check=True)


def urls(server):
    return [f"http://127.0.0.1:{port}" for port in server.ports]


def ycsb(server, arguments, *options):
    """What YCSB prints."""
    properties = {
        "workload": "site.ycsb.workloads.CoreWorkload",
        "kvorum.urls": ",".join(urls(server)),
        "kvorum.replicas": "2/3",
        "recordcount": arguments.records,
        "operationcount": arguments.rate * arguments.seconds,
        "requestdistribution": "zipfian",
        "readproportion": 0.5,
        "updateproportion": 0.5,
        "fieldcount": 1,
        "fieldlength": 64,
        "writeallfields": "true",
    }
    command = ["java", "-cp", f"{BINDING}/target/*:{BINDING}/target/dependency/*", "site.ycsb.Client"]
    command += ["-db", "kvorum.KvorumDb", "-threads", str(THREADS), *options]
    for name, value in properties.items():
        command += ["-p", f"{name}={value}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def figure(text, section, name):
    found = re.search(rf"\[{section}\], {re.escape(name)}, ([\d.]+)", text)
    return float(found[1]) if found else 0.0


def run_ycsb(server, arguments):
    before = server.cpu_seconds()
    text = ycsb(server, arguments, "-t", "-target", str(arguments.rate))
    used = server.cpu_seconds() - before
    operations = figure(text, "READ", "Operations") + figure(text, "UPDATE", "Operations")
    failed = sum(map(int, re.findall(r"\], Return=(?!OK)\w+, (\d+)", text)))
    milliseconds = lambda section, name: figure(text, section, name) / 1e3
    return {
        "operations a second": f"{figure(text, 'OVERALL', 'Throughput(ops/sec)'):.0f}",
        "failed": f"{failed}",
        "mean latency": " ".join(f"{kind.lower()}s {milliseconds(kind, 'AverageLatency(us)'):.2f} ms" for kind in ("READ", "UPDATE")),
        "p99": " ".join(f"{kind.lower()}s {milliseconds(kind, '99thPercentileLatency(us)'):.2f} ms" for kind in ("READ", "UPDATE")),
        "CPU time of the nodes, an operation": f"{used / operations * 1e6:.0f} us",
    }


def run_load(server, arguments):
    with tempfile.NamedTemporaryFile(suffix=".json") as results:
        command = [arguments.kvorum, "load", "ycsb-a", "--keys", str(arguments.records), "--rate", str(arguments.rate)]
        command += ["--warmup", "0", "--duration", f"{arguments.seconds}s", "--connections", str(THREADS)]
        command += ["--replicas", "2/3", "--target", ",".join(urls(server)), "--json", results.name]
        before = server.cpu_seconds()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        used = server.cpu_seconds() - before
        run = json.loads(pathlib.Path(results.name).read_text())
    return run, used


def described(run, used):
    """The figures of a run of the load generator."""
    latency = run["latency"]
    p99 = next(milliseconds for percentile, milliseconds in latency["spectrum"] if percentile >= 99)
    return {
        "operations a second": f"{run['succeeded'] / run['measured_seconds']:.0f}",
        "failed": f"{sum(run['failed'].values())}",
        "mean latency": f"{latency['mean_ms']:.2f} ms",
        "p99": f"{p99:.2f} ms",
        "CPU time of the nodes, an operation": f"{used / run['succeeded'] * 1e6:.0f} us",
    }


def main():
    parser = argparse.ArgumentParser(description="YCSB beside kvorum load ycsb-a.")
    parser.add_argument("--kvorum", default="target/release/kvorum")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=800, help="operations a second")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    build()
    options = ["--memory", "512MiB", "--threads", "1"]
    for number in range(1, arguments.rounds + 1):
        server = Cluster(arguments.kvorum, f"ycsb-{number}", 3, *options)
        try:
            ycsb(server, arguments, "-load")
            figures = run_ycsb(server, arguments)
            fill = ["load", "fill", "--keys", str(arguments.records), "--replicas", "2/3", "--target", ",".join(urls(server))]
            subprocess.run([arguments.kvorum, *fill], check=True, stdout=subprocess.DEVNULL)
            ours = described(*run_load(server, arguments))
        finally:
            server.stop()
        print(f"round {number} | YCSB 0.17.0 | kvorum load ycsb-a")
        for name, found in figures.items():
            print(f"{name} | {found} | {ours[name]}", flush=True)


main()

#!/usr/bin/env python3
"""Whether nodes stay as they are: memory, descriptors, threads and disk of three nodes under hours of mixed load.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/soak.py [--kvorum target/dist/kvorum] [--minutes 60] [--rate 500] [--keys 100000] [--samples FILE]

One load sends single puts, gets, deletes and scans, another one batches; four fifths of the operations are single.
Every ten seconds the benchmark scans the whole cluster, and notes what each node takes of the machine;
--samples keeps that as CSV. The nodes compare themselves often and collect tombstones after a minute, so an
hour has as many repair as months have otherwise. The values have 1 KiB, and the keys stay the same, so that after a
while everything should stay as large as it is.

A figure is the growth in an hour, at the node where it is greatest: the median of the slopes between all two samples
(Theil and Sen), without the first quarter of the run, in which caches fill. A sawtooth, as memtables and compactions
make it, does not move it much in an hour, but does in minutes: a run of less than half an hour shows only that it works.
What grows does so in both halves, which are printed as well; what only goes up and down does not.
"""

import csv
import http.client
import pathlib
import re
import statistics
import threading
import time
import urllib.request

from harness import Cluster, at_most, command_line, figure, load, metric, print_summary, resident_mib

INTERVAL_SECONDS = 10
BATCH = 20
OPTIONS = ("--memory", "128MiB", "--threads", "1", "--repair-interval", "30s", "--full-repair-interval", "3m",
           "--gc-grace", "1m", "--hint-age-max", "30s", "--clock-drift-max", "10s")
VALUES = ("--value-bytes", "1024", "--ack", "2", "--from", "3")
SINGLE = ("mixed", "--mix", "put=35,get=45,delete=10,scan=10", "--scan-limit", "20")
BATCHES = ("mixed", "--mix", "put=40,get=50,delete=10", "--batch", BATCH)
# What of a node is sampled, with its unit and how much of its median it may grow in an hour.
SAMPLED = {"memory": ("MiB resident", 0.05), "descriptors": ("open files", 0), "threads": ("threads", 0), "disk": ("MiB in its folder", 0.05)}


def disk_mib(folder):
    """The room that the files of a folder take. Files come and go meanwhile."""
    total = 0
    for path in pathlib.Path(folder).rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total / 2**20


def sample(node, folder):
    pid = node.process.pid
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {
        "memory": resident_mib(pid, "VmRSS"),
        "descriptors": len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())),
        "threads": int(re.search(r"Threads:\s+(\d+)", text)[1]),
        "disk": disk_mib(folder),
    }


def is_scanned(port):
    """Scans the whole cluster. Returns whether it succeeded."""
    url = f"http://127.0.0.1:{port}/v0/entities?start=0&limit=2000&scope=cluster"
    try:
        return len(urllib.request.urlopen(url, timeout=60).read()) > 0
    except (OSError, http.client.HTTPException) as error:
        print(f"  a scan of the cluster failed: {error}", flush=True)
        return False


def watch(server, folders, is_over):
    """Samples all nodes until the loads are over. Returns (seconds, samples of all nodes) and how many scans failed."""
    rows, began, failed = [], time.monotonic(), 0
    while not is_over.is_set():
        rows.append((time.monotonic() - began, [sample(node, folder) for node, folder in zip(server.nodes, folders)]))
        failed += not is_scanned(server.ports[len(rows) % len(server.ports)])
        if len(rows) % 30 == 1:
            print(f"  {rows[-1][0] / 60:4.0f} min: " + "; ".join(
                f"{one['memory']:.0f} MiB, {one['descriptors']} files, {one['threads']} threads, {one['disk']:.0f} MiB of disk" for one in rows[-1][1]
            ), flush=True)
        is_over.wait(len(rows) * INTERVAL_SECONDS - (time.monotonic() - began))
    return rows, failed


def slope(points):
    """The median of the slopes between all two points."""
    return statistics.median((there[1] - here[1]) / (there[0] - here[0]) for index, here in enumerate(points) for there in points[index + 1 :])


def write_samples(file, rows):
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["seconds", "node", *SAMPLED])
        for seconds, nodes in rows:
            writer.writerows([f"{seconds:.1f}", number, *(f"{one[name]:.1f}" for name in SAMPLED)] for number, one in enumerate(nodes))


def judge(rows):
    """Prints the growth of each figure in an hour, at the node where it is greatest."""
    counted = rows[len(rows) // 4 :]
    for name, (unit, share) in SAMPLED.items():
        growths = []
        for node in range(len(rows[0][1])):
            points = [(seconds / 3600, nodes[node][name]) for seconds, nodes in counted]
            median = statistics.median(value for _, value in points)
            growths.append((slope(points), median))
            first, second = points[: len(points) // 2], points[len(points) // 2 :]
            print(f"  {name} of node {node}: {median:.1f} at the median, from {min(value for _, value in points):.1f} "
                  f"to {max(value for _, value in points):.1f}, {growths[-1][0]:+.2f} an hour; "
                  f"in the halves {slope(first):+.2f} and {slope(second):+.2f}", flush=True)
        growth, median = max(growths)
        figure(f"{name}-growth", growth, f"{unit} more an hour", at_most(round(share * median, 1)))


def main():
    parser = command_line(__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long the load lasts (60)")
    parser.add_argument("--rate", type=int, default=500, help="operations a second (500)")
    parser.add_argument("--keys", type=int, default=100_000, help="keys (100000)")
    parser.add_argument("--samples", type=pathlib.Path, help="a file for the samples, as CSV")
    arguments = parser.parse_args()
    server = Cluster(arguments.kvorum, "soak", 3, *OPTIONS)
    folders = [command[command.index("--data") + 1] for command in server.commands]
    shared = (*VALUES, "--keys", arguments.keys)
    runs, is_over = {}, threading.Event()

    def run(name, rate, *options):
        runs[name] = load(server.ports, *options, *shared, "--rate", rate, "--duration", f"{int(arguments.minutes * 60)}s")

    try:
        load(server.ports, "fill", *shared)
        load(server.ports, "get", "--key-choice", "sequential", "--duration", "10s", *shared)
        asked = {"single": (arguments.rate * 4 // 5, *SINGLE), "batches": (max(arguments.rate // 5 // BATCH, 1), *BATCHES)}
        loads = [threading.Thread(target=run, args=(name, *words), daemon=True) for name, words in asked.items()]
        for thread in loads:
            thread.start()
        ending = threading.Thread(target=lambda: ([thread.join() for thread in loads], is_over.set()), daemon=True)
        ending.start()
        rows, scans_failed = watch(server, folders, is_over)
        repair = sum(metric(port, "kvorum_repair_sessions_total") for port in server.ports)
    finally:
        server.stop()
    if arguments.samples:
        write_samples(arguments.samples, rows)
    for name, found in runs.items():
        print(f"  {name}: {found['succeeded']} requests succeeded, failed {found['failed'] or 'none'}", flush=True)
    print(f"  {len(rows)} samples and scans of the cluster, {repair:.0f} repair", flush=True)
    judge(rows)
    for name, found in runs.items():
        figure(f"{name}-failed", sum(found["failed"].values()), "requests failed", at_most(0), 0)
    figure("scans-failed", scans_failed, "scans of the cluster failed", at_most(0), 0)
    print_summary()


main()

#!/usr/bin/env python3
"""What tombstone GC costs the disk: the same churn on a cluster that collects tombstones, and on one that keeps them.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/tombstone_gc.py [--kvorum target/dist/kvorum] [--beside BINARY] [--seconds 60] [--rate 6000] [--pairs 1]

Three nodes, three copies, 2/3. Keys come and go: most operations put values of 1 KiB and the others delete, over few
enough keys that each is put and deleted many times. One cluster has a GC grace of ten seconds and runs full repairs as
often, so that the GC threshold follows closely; the other never runs a full repair, so that it has no threshold. Write
amplification is what flushes and compactions write, beside what they were given. Where the threshold rises, no tombstone
should be left in a table soon after the churn. `harness.py` says what is shared with other benchmarks.
"""

import statistics
import sys
import time

from harness import Cluster, at_most, command_line, figure, in_turn, load, metric, print_summary

OPTIONS = ("--memory", "256MiB", "--threads", "1", "--durability", "os", "--repair-interval", "2s",
           "--gc-grace", "10s", "--hint-age-max", "5s", "--clock-drift-max", "2s")
VARIANTS = {"collects": ("--full-repair-interval", "10s"), "keeps": ("--full-repair-interval", "off")}
WORKLOAD = ("mixed", "--mix", "put=60,delete=40", "--keys", "200000", "--value-bytes", "1024", "--ack", "2", "--from", "3")
# What was deleted last is below the GC threshold after the GC grace and a full repair, and gone after one more: that
# takes 30 s at best. Both clusters get the same time.
REST_SECONDS = 60


def total(server, name):
    """The sum of a metric over all nodes."""
    return sum(metric(port, f"kvorum_store_{name}") for port in server.all_ports)


def churn(arguments, name, *options):
    """Runs the churn on a new cluster. Returns its figures."""
    server = Cluster(arguments.kvorum, name, 3, *OPTIONS, *options)
    try:
        before = server.cpu_seconds()
        run = load(server.ports, *WORKLOAD, "--rate", arguments.rate, "--duration", f"{arguments.seconds}s", "--warmup", "0")
        cpu = server.cpu_seconds() - before
        time.sleep(REST_SECONDS)
        moved = sum(total(server, f"{kind}_written_bytes_total") for kind in ("flush", "compaction"))
        if not moved:
            sys.exit("nothing was flushed: give more seconds or a higher rate")
        return {
            "amplification": moved / total(server, "written_bytes_total"),
            "cpu": cpu / run["succeeded"] * 1e6,
            "tables": total(server, "level_bytes") / 2**20,
            "tombstones": total(server, "table_tombstones"),
        }
    finally:
        server.stop()


def beside_each_other(arguments):
    found = {name: [] for name in VARIANTS}
    for pair in range(arguments.pairs):
        for name, options in VARIANTS.items():
            run = churn(arguments, f"{name}-{pair}", *options)
            found[name].append(run)
            print(f"  {name}: write amplification {run['amplification']:.2f}, CPU {run['cpu']:.1f} us a request, "
                  f"tables {run['tables']:.0f} MiB, {run['tombstones']:.0f} tombstones", flush=True)
    median = lambda name, what: statistics.median(run[what] for run in found[name])
    for name in VARIANTS:
        figure(f"{name}: write amplification", median(name, "amplification"), "times what was written")
        figure(f"{name}: CPU", median(name, "cpu"), "us a request", decimals=1)
        figure(f"{name}: tables", median(name, "tables"), "MiB, all nodes", decimals=0)
    figure("collects: tombstones left", median("collects", "tombstones"), "in tables", at_most(0), 0)


def main():
    parser = command_line(__doc__, beside=True, seconds=60, pairs=1)
    parser.add_argument("--rate", type=int, default=6000, help="operations a second (6000)")
    arguments = parser.parse_args()
    in_turn(arguments, lambda: beside_each_other(arguments))
    print_summary()


main()

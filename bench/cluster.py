#!/usr/bin/env python3
"""The cost of replication: three nodes on this machine, with the sum of their CPU time.

    cargo build --release
    python3 bench/cluster.py [--kvorum target/release/kvorum] [--seconds 8] [--pairs 3] [CASE ...]

Cases: put-1-1 get-1-1 put-sync put-os get latency killed frozen overload; all by default.
The load goes to all three nodes, or to the first --targets of them. `harness.py` says what is measured and with which tools.
"""

import argparse
import signal
import statistics
import time

from harness import KEYS, Cluster, breaking_point, fill, kvorum, oha, overload, pairs, run_cases

QUORUM = "&ack=2&from=3"
ONE = "&ack=1&from=1"


def cluster(arguments, name, *options):
    """Three nodes with the options that `kvorum dev` sets: each has a part of the cores and the memory."""
    server = Cluster(arguments.kvorum, name, 3, "--memory", "512MiB", "--threads", "1", *options)
    server.ports = server.all_ports[:arguments.targets]
    return server


def filled(arguments, name, suffix):
    """Three nodes with each key on as many replicas as a read asks."""
    server = cluster(arguments, name, "--durability", "os")
    fill(server, range(KEYS), suffix=suffix)
    return server


def latency(arguments):
    """p99 of 2/3 at half of its breaking point, compared with one node at the same rate."""
    for method in ("PUT", "GET"):
        three = filled(arguments, f"latency-{method}", QUORUM)
        one = kvorum(arguments.kvorum, f"latency-one-{method}", "--memory", "512MiB", "--durability", "os")
        fill(one, range(KEYS))
        try:
            best = breaking_point(three, method, 5, suffix=QUORUM)
            if best == 0:
                print(f"latency-{method}: no rate held: MISSED", flush=True)
                continue
            ratios = []
            for _ in range(arguments.pairs):
                alone = oha(one, best / 2, arguments.seconds, method=method)
                ours = oha(three, best / 2, arguments.seconds, method=method, suffix=QUORUM)
                ratios.append(ours["p99"] / alone["p99"])
                print(f"  {method} at {best / 2:.0f}/s: one node p99 {alone['p99']:.2f} ms, 2/3 p99 {ours['p99']:.2f} ms", flush=True)
        finally:
            three.stop()
            one.stop()
        ratio = statistics.median(ratios)
        print(f"latency-{method}: {ratio:.2f} times one node's p99 (bound 3) {'ok' if ratio <= 3 else 'MISSED'}", flush=True)


def disturbed(arguments, name, disturb, undo):
    """2/3 through two nodes while the third is disturbed: failures after the first second, and p99."""
    server = cluster(arguments, name, "--durability", "os")
    try:
        # The third node gets no requests.
        server.ports = server.all_ports[:2]
        fill(server, range(KEYS), suffix=QUORUM)
        rate = 4_000
        for method in ("PUT", "GET"):
            before = oha(server, rate, arguments.seconds, method=method, suffix=QUORUM)
            disturb(server.nodes[2])
            first = oha(server, rate, 1, method=method, suffix=QUORUM)
            after = oha(server, rate, arguments.seconds, method=method, suffix=QUORUM)
            undo(server)
            failed = {code: count for code, count in after["statuses"].items() if code not in ("200", "201")}
            ratio = after["p99"] / before["p99"]
            print(f"  {method} at {rate}/s: p99 before {before['p99']:.2f} ms, in the first second {first['p99']:.2f} ms "
                  f"({first['statuses']}), after it {after['p99']:.2f} ms", flush=True)
            ok = not failed and not after["errors"] and ratio <= 2
            print(f"{name}-{method}: failed {failed or 0}, errors {after['errors'] or 0}, p99 {ratio:.2f} times (bounds 0, 0, 2) {'ok' if ok else 'MISSED'}", flush=True)
            time.sleep(3)
    finally:
        server.stop()


def kill(node):
    node.process.send_signal(signal.SIGKILL)
    node.process.wait()


def overloaded(arguments):
    """Overloads one of the three nodes."""
    server = cluster(arguments, "overload", "--durability", "os")
    try:
        server.ports = server.all_ports[:1]
        overload(server, (6_000, 10_000, 15_000, 20_000), QUORUM)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--kvorum", default="target/release/kvorum")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--targets", type=int, default=3, help="how many of the nodes get requests")
    arguments = parser.parse_args()
    case = lambda name, limit, method, start, suffix: lambda: pairs(name, limit, method, arguments, start, suffix)
    cases = {
        "put-1-1": case("put-1-1", 3, "PUT", lambda: cluster(arguments, "put-1-1", "--durability", "os"), ONE),
        "get-1-1": case("get-1-1", 3, "GET", lambda: filled(arguments, "get-1-1", ONE), ONE),
        "put-sync": case("put-sync", 5, "PUT", lambda: cluster(arguments, "put-sync"), QUORUM),
        "put-os": case("put-os", 4, "PUT", lambda: cluster(arguments, "put-os", "--durability", "os"), QUORUM),
        "get": case("get", 3.5, "GET", lambda: filled(arguments, "get", QUORUM), QUORUM),
        "latency": lambda: latency(arguments),
        "killed": lambda: disturbed(arguments, "killed", kill, lambda server: server.start(2)),
        "frozen": lambda: disturbed(
            arguments,
            "frozen",
            lambda node: node.process.send_signal(signal.SIGSTOP),
            lambda server: server.nodes[2].process.send_signal(signal.SIGCONT),
        ),
        "overload": lambda: overloaded(arguments),
    }
    run_cases(cases, arguments.cases)


main()

#!/usr/bin/env python3
"""The cost of replication: three nodes on this machine, with the sum of their CPU time.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/cluster.py [--kvorum target/dist/kvorum] [--beside BINARY] [--seconds 8] [--pairs 3] [--targets 3] [--threads 1] [CASE ...]

Cases: put-1-1 get-1-1 put-sync put-os get conditional settled latency tail killed frozen overload; all by default.
The load goes to all three nodes, or to the first --targets of them. Each node has one thread,
or with --threads default one a core. `harness.py` says what is measured and with which tools.
"""

import http.client
import itertools
import signal
import statistics
import threading
import time

from harness import (
    KEYS, Cluster, at_most, breaking_point, command_line, figure, fill, kvorum, load, metric, open_loop, overload, pairs, percentile, print_syncs,
    run_cases, tail, wrk,
)  # fmt: skip

QUORUM = "&ack=2&from=3"
ONE = "&ack=1&from=1"
REPLICAS = ("--ack", "2", "--from", "3")
# CPU beside nginx at most: if all three nodes are asked, and if one is, by its threads.
GOALS = {
    "put-1-1": {"all": 3, "1": 2.4, "default": 2.8},
    "get-1-1": {"all": 3},
    "put-sync": {"all": 5, "1": 3.4, "default": 3.9},
    "put-os": {"all": 4, "1": 4},
    "get": {"all": 3.5, "1": 2.7, "default": 3.1},
}


def cluster(arguments, name, *options):
    """Three nodes that share the machine: each has a part of the memory, and of the cores unless its threads are the default."""
    threads = () if arguments.threads == "default" else ("--threads", arguments.threads)
    server = Cluster(arguments.kvorum, name, 3, "--memory", "512MiB", *threads, *options)
    server.ports = server.all_ports[:arguments.targets]
    return server


def filled(arguments, name, suffix):
    """Three nodes with each key on as many replicas as a read asks."""
    server = cluster(arguments, name, "--durability", "os")
    fill(server, range(KEYS), suffix=suffix)
    return server


def goal(arguments, case):
    """The goal of the CPU time that a case costs, if there is one for the nodes that are asked and their threads."""
    if arguments.targets == 3:
        bound = GOALS[case].get("all") if arguments.threads == "1" else None
    else:
        bound = GOALS[case].get(arguments.threads) if arguments.targets == 1 else None
    return bound and at_most(bound)


def conditional(arguments):
    """2/3, synced: CPU of PUTs that create a key, with a condition and without one, in turn; of those whose condition does not hold; and round trips."""
    server = cluster(arguments, "conditional")
    sum_of = lambda name: sum(metric(port, name) for port in server.all_ports)
    absent = {"If-None-Match": "*"}
    # So many keys that each is new.
    new = lambda prefix, **fields: wrk(server, "PUT", arguments.seconds, 1 << 31, prefix=prefix, suffix=QUORUM, **fields)
    applied, refused, ballots = [], [], []
    try:
        fill(server, range(KEYS), suffix=QUORUM)
        for turn in range(arguments.pairs):
            plain, plain_rate = new(f"plain{turn}-")
            before = sum_of("kvorum_conditional_ballots_total"), sum_of("kvorum_conditional_writes_total")
            created, rate = new(f"new{turn}-", fields=absent)
            after = sum_of("kvorum_conditional_ballots_total"), sum_of("kvorum_conditional_writes_total")
            there, there_rate = wrk(server, "PUT", arguments.seconds, suffix=QUORUM, fields=absent, refused=True)
            applied.append(created / plain)
            refused.append(there / plain)
            ballots.append((after[0] - before[0]) / (after[1] - before[1]))
            print(f"  conditional: plain {plain:5.2f} us {plain_rate:6.0f}/s   201 {created:5.2f} us {rate:6.0f}/s   412 {there:5.2f} us {there_rate:6.0f}/s   "
                  f"{ballots[-1]:.4f} ballots a write", flush=True)
    finally:
        server.stop()
    figure("conditional", statistics.median(applied), "times a plain PUT's CPU", at_most(2.2))
    figure("conditional-refused", statistics.median(refused), "times a plain PUT's CPU", at_most(1.3))
    # A ballot is a round trip for promises and one for the version.
    figure("conditional-round-trips", 2 * statistics.median(ballots), "round trips a write", at_most(2.02))


def settled(arguments):
    """How long the promises last that a node leaves behind which is killed in the middle of conditional writes."""
    times = []
    for turn in range(arguments.pairs):
        server = cluster(arguments, f"settled-{turn}")

        def create(worker):
            connection = http.client.HTTPConnection("127.0.0.1", server.all_ports[2], timeout=5)
            try:
                for number in itertools.count():
                    connection.request("PUT", f"/v0/entity?id={worker}-{number}{QUORUM}", b"v", {"If-None-Match": "*"})
                    connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                # It was killed.
                pass

        left = lambda: sum(metric(port, "kvorum_promises_kept") for port in server.all_ports[:2])
        workers = [threading.Thread(target=create, args=(worker,)) for worker in range(64)]
        try:
            for worker in workers:
                worker.start()
            time.sleep(2)
            kill(server.nodes[2])
            killed = time.monotonic()
            if not (behind := left()):
                print("  settled: no promise was left behind", flush=True)
                continue
            while left():
                time.sleep(0.005)
            times.append(time.monotonic() - killed)
            print(f"  settled: {behind:.0f} promises were left behind, and none after {times[-1]:.2f} s", flush=True)
        finally:
            for worker in workers:
                worker.join()
            server.nodes.pop()
            server.stop()
    figure("settled", max(times, default=None), "s until no promise is left", at_most(1))


def latency(arguments):
    """p99 of 2/3 at half of its breaking point, compared with one node at the same rate."""
    for method in ("put", "get"):
        three = cluster(arguments, f"latency-{method}", "--durability", "os")
        one = kvorum(arguments.kvorum, f"latency-one-{method}", "--memory", "512MiB", "--durability", "os")
        try:
            load(three.ports, "fill", *REPLICAS)
            load(one.ports, "fill")
            best = breaking_point(three, method, *REPLICAS)
            ratios = []
            for _ in range(arguments.pairs if best else 0):
                alone = open_loop(one, method, best / 2, arguments.seconds)
                ours = open_loop(three, method, best / 2, arguments.seconds, *REPLICAS)
                p99s = percentile(alone, 0.99), percentile(ours, 0.99)
                ratios.append(p99s[1] / p99s[0])
                print(f"  {method} at {best / 2:.0f}/s: one node p99 {p99s[0]:.2f} ms, 2/3 p99 {p99s[1]:.2f} ms", flush=True)
        finally:
            three.stop()
            one.stop()
        figure(f"latency-{method}", statistics.median(ratios) if ratios else None, "times one node's p99", at_most(3))


def tail_beside_nginx(arguments):
    """p99.9 of PUT 2/3, synced, at half of its breaking point, beside nginx at the same rate."""
    server = cluster(arguments, "tail")
    try:
        print_syncs()
        if best := breaking_point(server, "put", *REPLICAS):
            tail("tail", at_most(3), arguments, server, best / 2, *REPLICAS)
        else:
            figure("tail", None, "times nginx's p99.9", at_most(3))
    finally:
        server.stop()


def disturbed(arguments, name, disturb, undo):
    """2/3 through two nodes while the third is disturbed half a second after a run has begun: failures in the second after
    that, whose requests may be under way to it, those of the run that follows, and p99."""
    server = cluster(arguments, name, "--durability", "os")
    try:
        # The third node gets no requests.
        server.ports = server.all_ports[:2]
        load(server.ports, "fill", *REPLICAS)
        rate = 4_000
        for method in ("put", "get"):
            run = lambda seconds, *more: open_loop(server, method, rate, seconds, *REPLICAS, *more)
            before = run(arguments.seconds)
            disturber = threading.Timer(0.5, disturb, (server.nodes[2],))
            disturber.start()
            first = run(2, "--warmup", "0")
            disturber.join()
            after = run(arguments.seconds)
            undo(server)
            p99s = [percentile(found, 0.99) for found in (before, first, after)]
            print(f"  {method} at {rate}/s: p99 before {p99s[0]:.2f} ms, around it {p99s[1]:.2f} ms "
                  f"(failed: {first['failed'] or 'none'}), afterwards {p99s[2]:.2f} ms (failed: {after['failed'] or 'none'})", flush=True)
            figure(f"{name}-{method}-failed", sum(after["failed"].values()), "requests failed", at_most(0), 0)
            figure(f"{name}-{method}-p99", p99s[2] / p99s[0], "times the p99 before", at_most(2))
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
        overload(arguments, server, *REPLICAS)
    finally:
        server.stop()


def main():
    parser = command_line(__doc__, cases=True, seconds=8, pairs=3)
    parser.add_argument("--targets", type=int, default=3, help="how many of the nodes get requests (3)")
    parser.add_argument("--threads", default="1", help="the threads of a node, or default for one a core (1)")
    arguments = parser.parse_args()

    def case(name, method, start, suffix):
        return lambda: pairs(name, goal(arguments, name), method, arguments, start, suffix)

    cases = {
        "put-1-1": case("put-1-1", "PUT", lambda: cluster(arguments, "put-1-1", "--durability", "os"), ONE),
        "get-1-1": case("get-1-1", "GET", lambda: filled(arguments, "get-1-1", ONE), ONE),
        "put-sync": case("put-sync", "PUT", lambda: cluster(arguments, "put-sync"), QUORUM),
        "put-os": case("put-os", "PUT", lambda: cluster(arguments, "put-os", "--durability", "os"), QUORUM),
        "get": case("get", "GET", lambda: filled(arguments, "get", QUORUM), QUORUM),
        "conditional": lambda: conditional(arguments),
        "settled": lambda: settled(arguments),
        "latency": lambda: latency(arguments),
        "tail": lambda: tail_beside_nginx(arguments),
        "killed": lambda: disturbed(arguments, "killed", kill, lambda server: server.start(2)),
        "frozen": lambda: disturbed(
            arguments,
            "frozen",
            lambda node: node.process.send_signal(signal.SIGSTOP),
            lambda server: server.nodes[2].process.send_signal(signal.SIGCONT),
        ),
        "overload": lambda: overloaded(arguments),
    }
    run_cases(cases, arguments)


main()

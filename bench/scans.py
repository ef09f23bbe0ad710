#!/usr/bin/env python3
"""Scans of the whole cluster beside scans of one node, and what conditions and aggregates cost: three nodes on this machine.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/scans.py [--kvorum target/dist/kvorum] [--beside BINARY] [--keys 200000] [--pairs 5] [CASE ...]

Cases: speed memory tombstones questions; all by default. Every key is on all nodes, so a scan of one node
tells as much as one of the cluster. The client only counts bytes; the trailer says how many
entities a scan had. Figures are the median ratio of pairs of runs: one node, then the cluster.
"""

import json
import re
import socket
import statistics
import threading
import time
import urllib.error
import urllib.request

from harness import (
    Cluster, at_least, at_most, batched, breaking_point, command_line, figure, open_loop, percentile, pipelined, resident_mib, run_cases,
)  # fmt: skip

VALUE_BYTES = 1024
TOMBSTONES = 1_000_000
ORDER_BYTES = 200
CONDITION = "value.total > 100"


def nodes(arguments, name):
    return Cluster(arguments.kvorum, name, 3, "--memory", "512MiB", "--threads", "1", "--durability", "os")


def fill(server, keys):
    value = (b"0123456789abcdef" * (VALUE_BYTES // 16))[:VALUE_BYTES]
    lines = [b"PUT /v0/entity?id=key%08d&replicas=3/3" % key for key in range(keys)]
    pipelined(server.port, lines, value, 201)


def told(port, query):
    """The bytes, the entities, the seconds to the first byte and those of the whole scan."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        began = time.monotonic()
        connection.sendall(b"GET /v0/entities?%s HTTP/1.1\r\nHost: 127.0.0.1\r\nTE: trailers\r\nConnection: close\r\n\r\n" % query)
        buffer, total, first, tail, longest = bytearray(1 << 20), 0, None, b"", 0.0
        before = began
        while count := connection.recv_into(buffer):
            now = time.monotonic()
            first = first or now - began
            longest, before = max(longest, now - before), now
            total += count
            tail = (tail + bytes(buffer[max(0, count - 256) : count]))[-256:]
        took = time.monotonic() - began
    entities = re.search(rb"kvorum-count: (\d+)", tail)
    assert entities, f"the scan was cut: {tail!r}"
    return {"bytes": total, "entities": int(entities[1]), "first": first, "took": took, "longest": longest}


def speed(arguments):
    server = nodes(arguments, "speed")
    try:
        fill(server, arguments.keys)
        mib, keys = [], []
        for _ in range(arguments.pairs):
            one = told(server.port, b"start=k")
            all_nodes = told(server.port, b"start=k&scope=cluster&replicas=2/3")
            assert one["entities"] == all_nodes["entities"] == arguments.keys
            rate = lambda run, what: run[what] / run["took"]
            mib.append(rate(all_nodes, "bytes") / rate(one, "bytes"))
            keys.append(rate(all_nodes, "entities") / rate(one, "entities"))
            print(f"  one node {rate(one, 'bytes') / 2**20:5.0f} MiB/s {rate(one, 'entities'):8.0f} keys/s   "
                  f"cluster {rate(all_nodes, 'bytes') / 2**20:5.0f} MiB/s {rate(all_nodes, 'entities'):8.0f} keys/s "
                  f"first byte {all_nodes['first'] * 1e3:.1f} ms", flush=True)
        for name, ratios in (("bytes", mib), ("keys", keys)):
            figure(f"speed-{name}", statistics.median(ratios), "of one node's scan", at_least(0.5))
        for query in (b"values=omit", b"count=only"):
            began = time.monotonic()
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(b"GET /v0/entities?start=k&scope=cluster&%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % query)
                while connection.recv(1 << 20):
                    pass
            print(f"  {query.decode()}: {arguments.keys / (time.monotonic() - began):.0f} keys/s", flush=True)
    finally:
        server.stop()


def memory(arguments):
    """How much the resident memory of the nodes grows by a scan, beside one of one node."""
    server = nodes(arguments, "memory")
    try:
        fill(server, arguments.keys)
        # What caches and memtables take is there before.
        for node in server.all_ports:
            told(node, b"start=k")
        resident = lambda: [resident_mib(node.process.pid, "VmRSS") for node in server.nodes]
        before = resident()
        highest, is_over = list(before), threading.Event()

        def watch():
            while not is_over.wait(0.005):
                highest[:] = map(max, highest, resident())

        watcher = threading.Thread(target=watch)
        watcher.start()
        told(server.port, b"start=k&scope=cluster&replicas=2/3")
        is_over.set()
        watcher.join()
        grown = [most - least for most, least in zip(highest, before)]
        print(f"  resident MiB before {[round(mib) for mib in before]}, more during the scan {[round(mib, 1) for mib in grown]}", flush=True)
        figure("memory", max(grown), "MiB more resident", at_most(32), 1)
    finally:
        server.stop()


def tombstones(arguments):
    server = nodes(arguments, "tombstones")
    try:
        deletes = [{"op": "delete", "key": f"dead{key:08}"} for key in range(TOMBSTONES)]
        batched(server.port, deletes, 202, "?replicas=3/3")
        pipelined(server.port, [b"PUT /v0/entity?id=last&replicas=3/3"], b"v", 201)
        for name, query in (("one-node", b"start=d"), ("cluster", b"start=d&scope=cluster&replicas=2/3")):
            run = told(server.port, query)
            assert run["entities"] == 1
            print(f"  {name}: {TOMBSTONES} dead keys in {run['took']:.2f} s, first byte after {run['first'] * 1e3:.1f} ms", flush=True)
            figure(f"tombstones-{name}", run["longest"], "s of silence at most", at_most(30))
    finally:
        server.stop()


def ask(port, **question):
    """Asks for aggregates of orders. Returns the answer, and the seconds that it took."""
    body = json.dumps({"prefix": "order/", **question}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v0/aggregate", body, {"Content-Type": "application/json"})
    began = time.monotonic()
    answer = json.load(urllib.request.urlopen(request, timeout=600))
    return answer, time.monotonic() - began


def questions(arguments):
    """How many orders a question looks at for a second of CPU; how long one is that never ends by itself; and the p99 of
    puts at half the breaking point while questions of the whole cluster are asked all the time."""
    server = nodes(arguments, "questions")
    try:
        order = lambda key: json.dumps({"country": ("DE", "FR", "IT")[key % 3], "id": key, "total": key % 150}).ljust(ORDER_BYTES)
        for start in range(0, arguments.keys, 100_000):
            some = range(start, min(start + 100_000, arguments.keys))
            batched(server.port, [{"op": "put", "key": f"order/{key:08}", "value": order(key)} for key in some], 201, "?replicas=3/3")
        matching = sum(key % 150 > 100 for key in range(arguments.keys))
        for name, whose, goal in (("node", {}, at_least(500_000)), ("cluster", {"scope": "cluster", "replicas": "2/3"}, None)):
            rates = []
            for _ in range(arguments.pairs):
                cpu = server.cpu_seconds()
                answer, took = ask(server.port, where=CONDITION, by=["value.country"], **whose)
                used = server.cpu_seconds() - cpu
                assert (answer["keys"], answer["matched"], len(answer["groups"])) == (arguments.keys, matching, 3), answer
                rates.append(arguments.keys / used)
                print(f"  {name}: {took:.2f} s, {used:.2f} s of CPU", flush=True)
            figure(f"questions-{name}", statistics.median(rates), "entities a second and core", goal, 0)
        never_ends(server)
        beside_puts(server)
    finally:
        server.stop()


def never_ends(server):
    many = json.dumps({"a": list(range(1000))})
    batched(server.port, [{"op": "put", "key": "order/9", "value": many}], 201, "?replicas=3/3")
    times = []
    for _ in range(20):
        began = time.monotonic()
        try:
            ask(server.port, prefix="order/9", where="value.a.all(x, value.a.all(y, value.a.all(z, x + y + z >= 0)))")
            raise AssertionError("the question has ended by itself")
        except urllib.error.HTTPError as refused:
            assert refused.code == 422, refused
        times.append((time.monotonic() - began) * 1e3)
    figure("questions-never-ends", statistics.median(times), "ms until it is refused", at_most(10), 1)


def beside_puts(server):
    quorum = ("--ack", "2", "--from", "3")
    rate = breaking_point(server, "put", *quorum, "--duration", "3s") / 2
    alone = open_loop(server, "put", rate, 10, *quorum)
    is_over, asked = threading.Event(), []

    def ask_on():
        while not is_over.is_set():
            asked.append(ask(server.port, where=CONDITION, by=["value.country"], scope="cluster", replicas="2/3")[1])

    asking = threading.Thread(target=ask_on)
    asking.start()
    beside = open_loop(server, "put", rate, 10, *quorum)
    is_over.set()
    asking.join()
    print(f"  puts at {rate:.0f}/s: p99 {percentile(alone, 0.99):.2f} ms alone, {percentile(beside, 0.99):.2f} ms beside {len(asked)} questions "
          f"of {statistics.mean(asked):.1f} s", flush=True)
    figure("questions-puts", percentile(beside, 0.99) / percentile(alone, 0.99), "p99 of puts beside alone", at_most(2))


def main():
    parser = command_line(__doc__, cases=True, pairs=5)
    parser.add_argument("--keys", type=int, default=200_000, help="values of 1 KiB, or orders of 200 bytes (200000)")
    arguments = parser.parse_args()
    cases = {name: lambda case=case: case(arguments) for name, case in CASES.items()}
    run_cases(cases, arguments)


CASES = {"speed": speed, "memory": memory, "tombstones": tombstones, "questions": questions}

if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Server CPU time per HTTP request of one node, as a ratio to nginx `return 201` in the same run.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/requests.py [--kvorum target/dist/kvorum] [--beside BINARY] [--seconds 8] [--pairs 3] [--rate 15000] [CASE ...]

Cases: put-sync put-os put-interval get-memory tables token latency overload memory
memory-long; all by default. `harness.py` says what is measured and with which tools.
"""

import collections
import os
import socket
import statistics
import subprocess
import time

from harness import (
    KEYS, WORK, at_least, at_most, command_line, figure, fill, kvorum, load, metric, open_loop, overload, pairs, print_syncs, resident_mib, run_cases,
    tail, wrk,
)  # fmt: skip

# The rate of the latency case, in PUTs a second, and that of the token case, in GETs.
RATE = 15_000
TOKEN_RATE = 20_000


def tables(arguments):
    """GET over 100 tables and over one, with several filters."""
    results = {}
    per_table = 2_000
    for count, rate in [(1, "0.01"), (100, "0.01"), (100, "0.03"), (100, "0.5"), (100, "none")]:
        name = f"tables-{count}-{rate}"
        options = ["--compaction", "off", "--filter", rate, "--durability", "os", "--memory", "1GiB"]
        if count > 1:
            # Each restart adds a table, because a node flushes its memtables when it stops.
            for part in range(count):
                server = kvorum(arguments.kvorum, name, *options)
                fill(server, range(part, per_table * count, count))
                server.stop()
        else:
            server = kvorum(arguments.kvorum, name, *options)
            fill(server, range(per_table * 100))
            server.stop()
        results[name] = kvorum(arguments.kvorum, name, *options)
    print("  GET, CPU per request over tables (compaction off), all blocks in cache:")
    try:
        for server in results.values():
            wrk(server, "GET", 3, keys=per_table * 100)
        rows = {name: [] for name in results}
        for _ in range(arguments.pairs):
            for name, server in results.items():
                rows[name].append(wrk(server, "GET", arguments.seconds, keys=per_table * 100)[0])
        for name, row in rows.items():
            print(f"  {name}: {statistics.median(row):6.2f} us", flush=True)
        for name, row in rows.items():
            if name != "tables-1-0.01":
                ratio = statistics.median(b / a for a, b in zip(rows["tables-1-0.01"], row))
                figure(name, ratio, "times one table's CPU", at_most(1.5) if name == "tables-100-0.01" else None)
    finally:
        for server in results.values():
            server.stop()


def token(arguments):
    """What a token adds to the CPU time of a GET: a node that wants one, and a node that does not, in turn."""
    tokens, secret = WORK / "tokens.toml", WORK / "token"
    made = [arguments.kvorum, "admin", "token", "new", "--name", "load", "--read", "--write", "--append", tokens]
    secret.touch(0o600)
    secret.write_text(subprocess.run(made, capture_output=True, text=True, check=True).stdout)
    servers = {
        "without": (kvorum(arguments.kvorum, "without", "--threads", "1", "--durability", "os"), ()),
        "with": (kvorum(arguments.kvorum, "with", "--threads", "1", "--durability", "os", "--tokens-file", str(tokens)), ("--token-file", secret)),
    }
    try:
        for server, options in servers.values():
            load(server.ports, "fill", *options)
        added = []
        for _ in range(arguments.pairs):
            cost = {}
            for name, (server, options) in servers.items():
                before = server.cpu_seconds()
                run = open_loop(server, "get", TOKEN_RATE, arguments.seconds, "--warmup", "0", *options)
                cost[name] = (server.cpu_seconds() - before) / run["succeeded"] * 1e6
            added.append(cost["with"] - cost["without"])
            print(f"  token: {cost['without']:.2f} us without, {cost['with']:.2f} us with one", flush=True)
        figure("token", statistics.median(added), "us of CPU more a GET", at_most(1))
    finally:
        for server, _ in servers.values():
            server.stop()


def latency(arguments):
    """p99.9 of PUT at a rate, through flushes and compactions, beside nginx at the same rate.

    Tail latency depends on the machine: while the host takes the cores away for
    milliseconds, or the disk is slow to sync, no server can answer. So syncs on
    the idle disk are measured, too.
    """
    print_syncs()
    for durability, goal in (("sync", 2.0), ("os", 1.3)):
        server = kvorum(arguments.kvorum, f"latency-{durability}", "--memory", "512MiB", "--durability", durability)
        try:
            tail(f"latency-{durability}", at_most(goal), arguments, server, arguments.rate, "--keys", "10000000")
            flushes, compactions = (metric(server.port, f"kvorum_store_{what}_total") for what in ("flushes", "compactions"))
            print(f"  flushes {flushes:.0f}, compactions {compactions:.0f} meanwhile")
        finally:
            server.stop()


def overloaded(arguments):
    server = kvorum(arguments.kvorum, "overload", "--memory", "1GiB")
    try:
        overload(arguments, server)
    finally:
        server.stop()


def memory(arguments):
    """Peak resident memory while 1 GiB is written, and read back by one curl."""
    server = kvorum(arguments.kvorum, "memory", "--memory", "128MiB", "--durability", "os")
    try:
        fill(server, range(1 << 20), 1024)
        written = resident_mib(server.process.pid)
        started = time.time()
        command = f"curl -s 'http://127.0.0.1:{server.port}/v0/entities?start=a' | wc -c"
        read = int(subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout)
        took = time.time() - started
        peak = resident_mib(server.process.pid)
        print(f"  1 GiB written: peak {written:.0f} MiB; {read >> 20} MiB read back in {took:.1f} s: peak {peak:.0f} MiB")
        assert read == (1 << 20) * (11 + 1 + 1024), read
        figure("memory", peak, "MiB resident at most", at_most(192), 0)
    finally:
        server.stop()


def memory_long(arguments):
    """Peak resident memory with the longest values for 128 MiB, 5 MiB: written, requested by readers that stall, overwritten. Statuses say how many
    of the requests the node took: what it refused, it did not hold, so a peak without it would say little."""
    length = 5 << 20
    server = kvorum(arguments.kvorum, "memory-long", "--memory", "128MiB", "--durability", "os", "--timeout", "10s")
    peak = lambda: resident_mib(server.process.pid)

    def put(key, value):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            head = f"PUT /v0/entity?id=key{key} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(value)}\r\n\r\n"
            try:
                connection.sendall(head.encode() + value)
            except OSError:
                # Refused before its end; the answer may be there.
                pass
            return status_of(connection)

    def stall(path, count):
        """Opens connections that request and then read nothing but the status; only their small buffers fill."""
        readers = []
        for number in range(count):
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            reader.settimeout(60)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(f"GET {path.format(number % 6)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            readers.append(reader)
        statuses = collections.Counter(map(status_of, readers))
        time.sleep(3)
        for reader in readers:
            reader.close()
        return statuses

    try:
        for kind, value in [("text", lambda key: (b"%08d value " % key * (length // 15 + 1))[:length]), ("random", lambda key: os.urandom(length))]:
            puts = collections.Counter(put(key, value(key)) for key in range(6))
            written = peak()
            reads = stall("/v0/entity?id=key{}", 60)
            read = peak()
            scans = stall("/v0/entities?start=a", 20)
            stalled = peak()
            figure(f"memory-long-{kind}-stalled", stalled, "MiB resident at most", at_most(192), 0)
            puts.update(put(key % 8, value(key)) for key in range(24))
            time.sleep(5)
            print(f"  {kind}: peak {written:.0f} MiB written, {read:.0f} read, {stalled:.0f} in scans, {peak():.0f} overwritten; "
                  f"statuses of puts {dict(puts)}, of stalled reads {dict(reads)}, of stalled scans {dict(scans)}", flush=True)
            figure(f"memory-long-{kind}-stored", puts[201], "of 30 values stored", at_least(30), 0)
            figure(f"memory-long-{kind}-held", reads[200] + scans[200], "of 80 stalled answers begun", decimals=0)
        figure("memory-long", peak(), "MiB resident at most", at_most(192), 0)
    finally:
        server.stop()


def status_of(connection):
    """The status of an answer, of which no more is read; 0 if the connection ends or waits too long without one."""
    head, beginning = b"", len("HTTP/1.1 200")
    try:
        while len(head) < beginning and (more := connection.recv(beginning - len(head))):
            head += more
    except OSError:
        return 0
    return int(head[-3:]) if len(head) == beginning else 0


def main():
    parser = command_line(__doc__, cases=True, seconds=8, pairs=3)
    parser.add_argument("--rate", type=int, default=RATE, help=f"PUTs a second of the case latency ({RATE})")
    arguments = parser.parse_args()

    def put(name, goal, durability):
        def run():
            if durability == "sync":
                print_syncs()
            pairs(name, at_most(goal), "PUT", arguments, lambda: kvorum(arguments.kvorum, name, "--durability", durability))

        return run

    cases = {
        "put-sync": put("put-sync", 1.7, "sync"),
        "put-os": put("put-os", 1.4, "os"),
        "put-interval": put("put-interval", 1.6, "interval=100ms"),
        "get-memory": lambda: pairs("get-memory", at_most(1.2), "GET", arguments, lambda: filled(arguments)),
        "tables": lambda: tables(arguments),
        "token": lambda: token(arguments),
        "latency": lambda: latency(arguments),
        "overload": lambda: overloaded(arguments),
        "memory": lambda: memory(arguments),
        "memory-long": lambda: memory_long(arguments),
    }
    run_cases(cases, arguments)


def filled(arguments):
    """A node with every key in its memtable."""
    server = kvorum(arguments.kvorum, "get-memory", "--durability", "os", "--memory", "1GiB")
    fill(server, range(KEYS))
    return server


if __name__ == "__main__":
    main()

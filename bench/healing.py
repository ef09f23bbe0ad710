#!/usr/bin/env python3
"""The cost of healing: repair and rebuilds of three nodes on this machine, and a fourth one that joins them.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/healing.py [--kvorum target/dist/kvorum] [--beside BINARY] [--mib 1024] [--pairs 3] [CASE ...]

Cases: equal incremental differing rebuild load join; all by default. The values have 1 KiB and cannot be compressed, and each
has three copies. CPU time is of all nodes, user and system. Bytes of the network are those that the nodes count
for repair; heartbeats and the headers of TCP are not in them. `harness.py` says what is shared with other
benchmarks.
"""

import json
import pathlib
import shutil
import statistics
import sys
import threading
import time
import urllib.error
import urllib.request

from harness import (
    WORK, Cluster, at_least, at_most, command_line, figure, free_port, load, metric, percentile, post, resident_mib, run_cases, settle, status_page,
)  # fmt: skip

MIB = 1 << 20
VALUE_BYTES = 1024
QUORUM = ("--ack", "2", "--from", "3")
OPTIONS = ("--memory", "512MiB", "--threads", "1", "--repair-interval", "off", "--full-repair-interval", "off")
# The share of its time that background work may always use.
FLOOR = 0.02


def repair_bytes(server):
    """What repairs have moved between the nodes: a node counts its requests as sent, and the answers to them as
    received, so the sum over all nodes has each byte once."""
    return sum(metric(port, "kvorum_repair_bytes_total") for port in server.all_ports)


def run_load(arguments, ports, *options):
    """Runs `kvorum-lab load` with values of this benchmark's length."""
    return load(ports, "--value-bytes", VALUE_BYTES, *options)


def keys(arguments):
    return arguments.mib * MIB // VALUE_BYTES


def filled(arguments, name, *options):
    """Three nodes with all values, at rest: nothing to flush or to compact any more."""
    server = Cluster(arguments.kvorum, name, 3, "--durability", "os", *OPTIONS, *options)
    run_load(arguments, server.ports, "fill", "--keys", keys(arguments), "--ack", "3", "--from", "3")
    settle(server)
    return server


def repair(server, full):
    """Has the nodes compare what they keep. Returns the seconds, the CPU seconds and the bytes that this took."""
    begun, cpu, sent = time.monotonic(), server.cpu_seconds(), repair_bytes(server)
    answer = post(server.all_ports[0], f"/v0/admin/repair?wait=true&full={'true' if full else 'false'}")
    return {
        "answer": answer,
        "seconds": time.monotonic() - begun,
        "cpu": server.cpu_seconds() - cpu,
        "bytes": repair_bytes(server) - sent,
    }


def gb(arguments):
    return keys(arguments) * VALUE_BYTES / 1e9


def equal(arguments):
    """A full repair of equal replicas: CPU, network, memory."""
    server = filled(arguments, "equal")
    try:
        repair(server, True)
        settle(server)
        for node in server.nodes:
            pathlib.Path(f"/proc/{node.process.pid}/clear_refs").write_text("5")
        resident = [resident_mib(node.process.pid, "VmRSS") for node in server.nodes]
        found = [repair(server, True) for _ in range(arguments.pairs)]
        grown = max(resident_mib(node.process.pid, "VmHWM") - before for node, before in zip(server.nodes, resident))
    finally:
        server.stop()
    size = gb(arguments)
    for run in found:
        print(f"  equal: {run['seconds']:.2f} s, {run['cpu']:.2f} s of CPU, {run['bytes'] / MIB:.3f} MiB, {run['answer']}", flush=True)
    cpu = statistics.median(run["cpu"] for run in found) / size / 3
    network = statistics.median(run["bytes"] for run in found) / MIB / size
    speed = statistics.median(arguments.mib / run["seconds"] for run in found)
    figure("equal-speed", speed, "MiB a second and node", at_least(200), 0)
    figure("equal-cpu", cpu, "s of CPU a GB and node", at_most(1.0))
    figure("equal-network", network, "MiB of network a GB", at_most(0.2), 3)
    figure("equal-memory", grown, "MiB more resident", at_most(32), 1)


def incremental(arguments):
    """An incremental repair after nothing has happened."""
    server = filled(arguments, "incremental")
    try:
        repair(server, True)
        blocks = lambda: sum(metric(port, "kvorum_store_data_blocks_fetched_total") for port in server.all_ports)
        before = blocks()
        run = repair(server, False)
        read = blocks() - before
    finally:
        server.stop()
    print(f"  incremental: {run['seconds']:.2f} s, {run['cpu']:.2f} s of CPU, {run['bytes'] / MIB:.3f} MiB", flush=True)
    figure("incremental", read, "data blocks read", at_most(0), 0)


def differing(arguments):
    """A full repair of replicas of which one lacks 0.1% of the versions."""
    # Hints are too old by then, so only the repair brings what the node has missed.
    server = filled(arguments, "differing", "--hint-age-max", "1s")
    count = max(keys(arguments) // 1000, 1)
    try:
        server.nodes[2].stop()
        run_load(arguments, server.all_ports[:2], "fill", "--keys", count, "--seed", 2, *QUORUM)
        time.sleep(3)
        server.start(2)
        time.sleep(5)
        run = repair(server, True)
        again = repair(server, True)
    finally:
        server.stop()
    differ = count * (VALUE_BYTES + 16)
    print(f"  differing: {count} versions, {differ / MIB:.3f} MiB; sent {run['bytes'] / MIB:.3f} MiB in {run['seconds']:.2f} s, "
          f"once equal {again['bytes'] / MIB:.3f} MiB; {run['answer']}", flush=True)
    figure("differing", run["bytes"] / differ, "times what differs, sent", at_most(1.2))


def rebuild(arguments):
    """A node loses its folder, and is rebuilt."""
    server = filled(arguments, "rebuild")
    try:
        server.nodes[2].stop()
        shutil.rmtree(WORK / "rebuild" / "2")
        # A store is rebuilt from its start on, so the clock runs before the first look at it.
        begun, cpu = time.monotonic(), sum(node.cpu_seconds() for node in server.nodes[:2])
        server.start(2)
        wait_until_filled(server)
        took, used = time.monotonic() - begun, server.cpu_seconds() - cpu
        page = status_page(server.all_ports[2])
    finally:
        server.stop()
    print(f"  rebuild: {took:.2f} s from its start, {used:.2f} s of CPU; repair {json.dumps(page.get('repair'))[:400]}", flush=True)
    # Before it begins, a session lets writes arrive for twice the deadline of requests.
    session = page["repair"]["full"]["last_duration_ms"] / 1000
    figure("rebuild", arguments.mib / took, "MiB a second, from the start of the node", at_least(100), 0)
    figure("rebuild-session", arguments.mib / session, "MiB a second, while the session runs", at_least(200), 0)
    figure("rebuild-cpu", used / gb(arguments), "s of CPU a GB, all nodes", at_most(3.0))


def join(arguments):
    """A fourth node joins, and gets its quarter of the copies."""
    server = filled(arguments, "join")
    try:
        port = free_port()
        server.all_ports = [*server.all_ports, port]
        by = f"http://127.0.0.1:{server.all_ports[0]}"
        server.commands.append([
            arguments.kvorum, "serve", "--url", f"http://127.0.0.1:{port}", "--name", "n3", "--join", by,
            "--data", str(WORK / "join" / "3"), "--durability", "os", *OPTIONS,
        ])  # fmt: skip
        server.nodes.append(None)
        server.start(3)
        begun, cpu = time.monotonic(), server.cpu_seconds()
        ask_to_join(server)
        wait_until_stable(server)
        took, used = time.monotonic() - begun, server.cpu_seconds() - cpu
        moved = sum(metric(of, "kvorum_members_moved_bytes_total") for of in server.all_ports)
    finally:
        server.stop()
    # Three copies on four nodes, each with its key and its timestamp.
    gained = keys(arguments) * 3 / 4 * (VALUE_BYTES + 16)
    print(f"  join: {took:.2f} s, {used:.2f} s of CPU, moved {moved / MIB:.0f} MiB for {gained / MIB:.0f} MiB", flush=True)
    figure("join", gained / MIB / took, "MiB a second", at_least(80), 0)
    figure("join-moved", moved / gained, "times what the node gains, moved", at_most(1.05))


def ask_to_join(server):
    """Orders the join once the members have heard of the node that waits."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return post(server.all_ports[0], "/v0/admin/members?join=n3")
        except urllib.error.HTTPError as refused:
            if time.monotonic() > deadline:
                sys.exit(f"the node cannot join: {refused.read().decode()}")
            time.sleep(0.1)


def wait_until_stable(server):
    deadline = time.monotonic() + 900
    while True:
        request = f"http://127.0.0.1:{server.all_ports[0]}/v0/cluster"
        members = json.load(urllib.request.urlopen(request, timeout=5))["members"]
        if members["phase"] == "stable" and len(members["members"]) == 4:
            return
        if time.monotonic() > deadline:
            sys.exit("the change of the members has not ended after 900 s")
        time.sleep(0.1)


def under_load(arguments):
    """At half the breaking point, at it, and beyond it: throughput and p99 alone, during full repair, and while a lost
    folder is rebuilt. The load goes to the two nodes that keep their folders. For comparison, without a goal: the same
    while the third node is only away. Then both others must answer each request, whatever else they do.

    At the breaking point (99% within 10 ms) and beyond it background work has its floor and no more: what it uses of
    its time is at most that."""
    server = filled(arguments, "load")
    mix = ("mixed", "--mix", "get=50,put=50", *QUORUM, "--keys", keys(arguments))
    try:
        best = run_load(arguments, server.ports[:2], *mix, "--find-breaking-point", "--duration", "4s")["rate"]
        if best is None:
            sys.exit("no rate held")
        for name, times in (("half", 0.5), ("full", 1), ("beyond", 1.4)):
            run = (*mix, "--rate", int(times * best), "--duration", "8s")
            for work, does in (("repair", repair_until), ("away", away_until), ("rebuilds", refill_until)):
                results = [beside(arguments, server, run, does) for _ in range(arguments.pairs)]
                throughput, slower, used = (statistics.median(column) for column in zip(*results))
                has_goals = does is not away_until
                figure(f"load-{name}-{work}-throughput", throughput, "times alone", at_least(0.9) if has_goals and name == "half" else None)
                figure(f"load-{name}-{work}-p99", slower, "times alone", at_most(2) if has_goals and name == "half" else None)
                if has_goals:
                    figure(f"load-{name}-{work}-used", used, "of its time a node heals", None if name == "half" else at_most(FLOOR), 3)
    finally:
        server.stop()


def beside(arguments, server, run, does):
    """A run of `kvorum-lab load` alone, and one while the cluster does something over and over. Returns the throughput and
    p99 of the second by those of the first, and the share of its time that a node with the load repaired or refilled in
    the second: the mean of its seconds but the first two, of the node where that is more."""
    alone = run_load(arguments, server.ports[:2], *run)
    ended = threading.Event()
    times = []
    worker = threading.Thread(target=does, args=(server, ended, times))
    worker.start()
    used, shares = ([], []), []
    watcher = threading.Thread(target=watch_work, args=(server, ended, used, shares))
    watcher.start()
    busy = run_load(arguments, server.ports[:2], *run)
    ended.set()
    watcher.join()
    worker.join()
    for folder in (WORK / "load").glob("lost-*"):
        shutil.rmtree(folder)
    settle(server)
    print(f"  {alone['succeeded']} and {busy['succeeded']} requests succeeded, p99 {percentile(alone, 0.99):.2f} and "
          f"{percentile(busy, 0.99):.2f} ms, {len(times)} times of {statistics.mean(times):.1f} s, may use {statistics.median(shares):.2f} of the time", flush=True)
    worked = max(statistics.mean(of_node[2:]) for of_node in used)
    return busy["succeeded"] / alone["succeeded"], percentile(busy, 0.99) / percentile(alone, 0.99), worked


def watch_work(server, ended, used, shares):
    """Notes each second, of the nodes that have the load, the share of the second that they repaired or refilled, and the
    share that background work may use."""
    look = lambda port: (time.monotonic(), metric(port, 'kvorum_background_work_seconds_total{kind="repair"}'))
    before = [look(port) for port in server.ports[:2]]
    while not ended.wait(1):
        for number, port in enumerate(server.ports[:2]):
            (then, worked_then), (now, worked) = before[number], look(port)
            used[number].append((worked - worked_then) / (now - then))
            shares.append(metric(port, "kvorum_background_share"))
            before[number] = (now, worked)


def repair_until(server, ended, times):
    """Repairs over and over."""
    while not ended.is_set():
        times.append(repair(server, True)["seconds"])


def refill_until(server, ended, times):
    """Loses the folder of the last node over and over, and has it rebuilt. The folder is deleted after the run: a file
    system that tells the device of freed blocks (`discard`) makes all syncs wait for that."""
    while not ended.is_set():
        server.nodes[2].stop()
        (WORK / "load" / "2").rename(WORK / "load" / f"lost-{len(times)}")
        begun = time.monotonic()
        server.start(2)
        wait_until_filled(server)
        times.append(time.monotonic() - begun)


def away_until(server, ended, times):
    """Stops the last node for the whole run."""
    begun = time.monotonic()
    server.nodes[2].stop()
    ended.wait()
    server.start(2)
    times.append(time.monotonic() - begun)


def wait_until_filled(server):
    deadline = time.monotonic() + 600
    while status_page(server.all_ports[2])["replica_state"] != "voter":
        if time.monotonic() > deadline:
            sys.exit("the node is not rebuilt after 600 s")
        time.sleep(0.1)


def main():
    parser = command_line(__doc__, cases=True, pairs=3)
    parser.add_argument("--mib", type=int, default=1024, help="the bytes of all values, in MiB (1024)")
    arguments = parser.parse_args()
    cases = {
        "equal": lambda: equal(arguments),
        "incremental": lambda: incremental(arguments),
        "differing": lambda: differing(arguments),
        "rebuild": lambda: rebuild(arguments),
        "load": lambda: under_load(arguments),
        "join": lambda: join(arguments),
    }
    run_cases(cases, arguments)


main()

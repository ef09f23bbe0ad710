#!/usr/bin/env python3
"""The cost of healing: sweeps and refills of three nodes on this machine.

    cargo build --release
    python3 bench/healing.py [--kvorum target/release/kvorum] [--mib 1024] [--pairs 3] [CASE ...]

Cases: equal recent differing refill load; all by default. The values have 1 KiB and cannot be compressed, and each
has three copies. CPU time is of all nodes, user and system. Bytes of the network are those that the nodes count
for sweeps; heartbeats and the headers of TCP are not in them. `harness.py` says what is shared with other
benchmarks.
"""

import argparse
import json
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

from harness import Cluster, WORK, metric, run_cases, status_page

MIB = 1 << 20
VALUE_BYTES = 1024
QUORUM = "2/3"
OPTIONS = ("--memory", "512MiB", "--threads", "1", "--sweep-interval", "off", "--full-sweep-interval", "off")


def verdict(value, bound, unit, at_least=False):
    held = value >= bound if at_least else value <= bound
    return f"{value:.2f} {unit} ({'at least' if at_least else 'at most'} {bound}) {'ok' if held else 'MISSED'}"


def sweep_bytes(server):
    """What sweeps have moved between the nodes: a node counts its requests as sent, and the answers to them as
    received, so the sum over all nodes has each byte once."""
    return sum(metric(port, "kvorum_sweep_bytes_total") for port in server.all_ports)


def resident_mib(pid, field):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", text).group(1)) / 1024


def load(arguments, server, *options, ports=None):
    """Runs `kvorum load` and returns its measurements."""
    targets = [option for port in ports or server.ports for option in ("--target", f"http://127.0.0.1:{port}")]
    command = [arguments.kvorum, "load", *targets, "--value-bytes", str(VALUE_BYTES), "--json", "-", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def keys(arguments):
    return arguments.mib * MIB // VALUE_BYTES


def filled(arguments, name, *options):
    """Three nodes with all values, at rest: nothing to flush or to compact any more."""
    server = Cluster(arguments.kvorum, name, 3, "--durability", "os", *OPTIONS, *options)
    load(arguments, server, "fill", "--keys", str(keys(arguments)), "--replicas", "3/3")
    settle(server)
    return server


def settle(server):
    """Waits until no node has used the CPU for two seconds to speak of."""
    while True:
        before = server.cpu_seconds()
        time.sleep(2)
        if server.cpu_seconds() - before < 0.2:
            return


def sweep(server, full):
    """Has the nodes compare what they keep. Returns the seconds, the CPU seconds and the bytes that this took."""
    port = server.all_ports[0]
    url = f"http://127.0.0.1:{port}/v0/admin/sweep?wait=true&full={'true' if full else 'false'}"
    request = urllib.request.Request(url, method="POST", headers={"Content-Type": "application/json"})
    begun, cpu, sent = time.monotonic(), server.cpu_seconds(), sweep_bytes(server)
    answer = json.load(urllib.request.urlopen(request, timeout=3600))
    return {
        "answer": answer,
        "seconds": time.monotonic() - begun,
        "cpu": server.cpu_seconds() - cpu,
        "bytes": sweep_bytes(server) - sent,
    }


def gb(arguments):
    return keys(arguments) * VALUE_BYTES / 1e9


def equal(arguments):
    """A full sweep of equal replicas: CPU, network, memory."""
    server = filled(arguments, "equal")
    try:
        sweep(server, True)
        settle(server)
        for node in server.nodes:
            pathlib.Path(f"/proc/{node.process.pid}/clear_refs").write_text("5")
        resident = [resident_mib(node.process.pid, "VmRSS") for node in server.nodes]
        found = [sweep(server, True) for _ in range(arguments.pairs)]
        grown = max(resident_mib(node.process.pid, "VmHWM") - before for node, before in zip(server.nodes, resident))
    finally:
        server.stop()
    size = gb(arguments)
    for run in found:
        print(f"  equal: {run['seconds']:.2f} s, {run['cpu']:.2f} s of CPU, {run['bytes'] / MIB:.3f} MiB, {run['answer']}", flush=True)
    cpu = statistics.median(run["cpu"] for run in found) / size / 3
    network = statistics.median(run["bytes"] for run in found) / MIB / size
    print(f"equal: CPU a GB and node {verdict(cpu, 1.0, 's')}", flush=True)
    print(f"equal: network a GB {verdict(network, 0.2, 'MiB')}", flush=True)
    print(f"equal: resident memory grew by {verdict(grown, 32, 'MiB')}", flush=True)


def recent(arguments):
    """A recent sweep after nothing has happened."""
    server = filled(arguments, "recent")
    try:
        sweep(server, True)
        blocks = lambda: sum(metric(port, "kvorum_store_data_blocks_fetched_total") for port in server.all_ports)
        before = blocks()
        run = sweep(server, False)
        read = blocks() - before
    finally:
        server.stop()
    print(f"  recent: {run['seconds']:.2f} s, {run['cpu']:.2f} s of CPU, {run['bytes'] / MIB:.3f} MiB", flush=True)
    print(f"recent: data blocks read {verdict(read, 0, '')}", flush=True)


def differing(arguments):
    """A full sweep of replicas of which one lacks 0.1% of the versions."""
    # Hints are too old by then, so only the sweep brings what the node has missed.
    server = filled(arguments, "differing", "--hint-age-max", "1s")
    count = max(keys(arguments) // 1000, 1)
    try:
        server.nodes[2].stop()
        load(arguments, server, "fill", "--keys", str(count), "--seed", "2", "--replicas", QUORUM, ports=server.all_ports[:2])
        time.sleep(3)
        server.start(2)
        time.sleep(5)
        run = sweep(server, True)
        again = sweep(server, True)
    finally:
        server.stop()
    differ = count * (VALUE_BYTES + 16)
    print(f"  differing: {count} versions, {differ / MIB:.3f} MiB; sent {run['bytes'] / MIB:.3f} MiB in {run['seconds']:.2f} s, "
          f"once equal {again['bytes'] / MIB:.3f} MiB; {run['answer']}", flush=True)
    sent = run["bytes"] / differ
    print(f"differing: sent {verdict(sent, 1.2, 'times what differs')}", flush=True)


def refill(arguments):
    """A node loses its folder, and is filled."""
    server = filled(arguments, "refill")
    try:
        server.nodes[2].stop()
        shutil.rmtree(WORK / "refill" / "2")
        server.start(2)
        begun, cpu = time.monotonic(), server.cpu_seconds()
        wait_until_filled(server)
        took, used = time.monotonic() - begun, server.cpu_seconds() - cpu
        page = status_page(server.all_ports[2])
    finally:
        server.stop()
    print(f"  refill: {took:.2f} s from its start, {used:.2f} s of CPU; sweeps {json.dumps(page.get('sweeps'))[:400]}", flush=True)
    print(f"refill: {verdict(arguments.mib / took, 100, 'MiB a second', at_least=True)}", flush=True)
    print(f"refill: CPU a GB over all nodes {verdict(used / gb(arguments), 4.0, 's')}", flush=True)


def percentile(run, share):
    """The latency in milliseconds below which this share of the requests is."""
    return next(latency for point, latency in run["latency"]["spectrum"] if point >= 100 * share)


def under_load(arguments):
    """At half the breaking point, and at the breaking point: throughput and p99 alone, during full sweeps, and while a
    lost folder is filled. The load goes to the two nodes that keep their folders. For comparison, without a goal: the
    same while the third node is only away. Then both others must answer each request, whatever else they do."""
    server = filled(arguments, "load")
    mix = ("mixed", "--mix", "get=50,put=50", "--replicas", QUORUM, "--keys", str(keys(arguments)))
    try:
        found = load(arguments, server, *mix, "--find-breaking-point", "--duration", "4s", ports=server.ports[:2])
        best = found["rate"]
        for name, rate in (("half", best / 2), ("full", best)):
            run = (*mix, "--rate", str(int(rate)), "--duration", "8s")
            for work, does in (("sweeps", sweep_until), ("has a node away", away_until), ("refills", refill_until)):
                results = [beside(arguments, server, run, does) for _ in range(arguments.pairs)]
                throughput, slower, share = (statistics.median(column) for column in zip(*results))
                if name == "half" and does is not away_until:
                    print(f"load-{name}: throughput while it {work} {verdict(throughput, 0.9, 'times', at_least=True)}", flush=True)
                    print(f"load-{name}: p99 while it {work} {verdict(slower, 2, 'times')}", flush=True)
                else:
                    print(f"load-{name}: while it {work} throughput {throughput:.2f} times, p99 {slower:.2f} times, share of "
                          f"background work {share:.2f} (floor 0.02)", flush=True)
    finally:
        server.stop()


def beside(arguments, server, run, does):
    """A run of `kvorum load` alone, and one while the cluster does something over and over. Returns the throughput and
    p99 of the second by those of the first, and the median share of its time that a node left to background work."""
    alone = load(arguments, server, *run, ports=server.ports[:2])
    ended = threading.Event()
    times = []
    worker = threading.Thread(target=does, args=(server, ended, times))
    worker.start()
    shares = []
    watcher = threading.Thread(target=watch_shares, args=(server, ended, shares))
    watcher.start()
    busy = load(arguments, server, *run, ports=server.ports[:2])
    ended.set()
    watcher.join()
    worker.join()
    for folder in (WORK / "load").glob("lost-*"):
        shutil.rmtree(folder)
    settle(server)
    print(f"  {alone['succeeded']} and {busy['succeeded']} requests succeeded, p99 {percentile(alone, 0.99):.2f} and "
          f"{percentile(busy, 0.99):.2f} ms, {len(times)} times of {statistics.mean(times):.1f} s", flush=True)
    return busy["succeeded"] / alone["succeeded"], percentile(busy, 0.99) / percentile(alone, 0.99), statistics.median(shares)


def watch_shares(server, ended, shares):
    """Notes twice a second the share of background work at the nodes that have the load."""
    while not ended.wait(0.5):
        shares.extend(metric(port, "kvorum_background_share") for port in server.ports[:2])


def sweep_until(server, ended, times):
    """Sweeps over and over."""
    while not ended.is_set():
        times.append(sweep(server, True)["seconds"])


def refill_until(server, ended, times):
    """Loses the folder of the last node over and over, and has it filled. The folder is deleted after the run: a file
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
    while status_page(server.all_ports[2])["standing"] != "witness":
        time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--kvorum", default="target/release/kvorum")
    parser.add_argument("--mib", type=int, default=1024, help="the bytes of all values, in MiB")
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    cases = {
        "equal": lambda: equal(arguments),
        "recent": lambda: recent(arguments),
        "differing": lambda: differing(arguments),
        "refill": lambda: refill(arguments),
        "load": lambda: under_load(arguments),
    }
    run_cases(cases, arguments.cases)


main()

#!/usr/bin/env python3
"""CPU time per request of the load generator, compared with wrk without a script.

Both send requests to nginx (`return 201`) over 64 connections with one thread, in
turn. The generator runs on one core and nginx on another.

    cargo build --profile dist -p lab-cli
    python3 bench/generator.py [--seconds 3] [--pairs 5]
"""

import json
import re
import resource
import statistics
import subprocess

from harness import CONNECTIONS, at_most, command_line, figure, generator, nginx, print_summary, tree

TARGET = "/v0/entity?id=000000012345k---"


def measured(command):
    """Runs a command on core 1; returns its output and the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["taskset", "-c", "1", *command]
    text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return text, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wrk(url, seconds):
    text, cpu_seconds = measured(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", url + TARGET])
    return cpu_seconds, int(re.search(r"(\d+) requests in", text).group(1))


def load(arguments, workload, url):
    options = ["--verify", "off", "--warmup", "0", "--duration", f"{arguments.seconds}s", "--json", "-", "--url", url]
    text, cpu_seconds = measured([generator(), "load", workload, *options])
    return cpu_seconds, json.loads(text)["succeeded"]


def main():
    arguments = command_line(__doc__, seconds=3, pairs=5).parse_args()
    server = nginx()
    for process in tree(server.process.pid):
        subprocess.run(["taskset", "-c", "-p", "0", str(process)], stdout=subprocess.DEVNULL, check=True)
    url = f"http://127.0.0.1:{server.port}"
    ratios = {"get": [], "put": []}
    try:
        for _ in range(arguments.pairs):
            base_seconds, base = wrk(url, arguments.seconds)
            print(f"wrk {base_seconds / base * 1e6:6.2f} us, {base / arguments.seconds:7.0f}/s", end="")
            for workload, found in ratios.items():
                cpu_seconds, requests = load(arguments, workload, url)
                found.append(cpu_seconds / requests / (base_seconds / base))
                print(f"   {workload} {cpu_seconds / requests * 1e6:6.2f} us, {requests / arguments.seconds:7.0f}/s", end="")
            print(flush=True)
    finally:
        server.stop()
    for workload, found in ratios.items():
        figure(workload, statistics.median(found), "of wrk's CPU a request", at_most(1))
    print_summary()


if __name__ == "__main__":
    main()

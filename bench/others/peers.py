#!/usr/bin/env python3
"""Compares Kvorum with other stores in one run on this machine; writes docs/lab/peers.md.

    cargo build --profile dist -p kvorum -p lab-cli
    python3 bench/others/peers.py [--kvorum target/dist/kvorum] [--seconds 3] [--rounds 3] [--only TEXT] [--page FILE]
    python3 bench/others/peers.py --conditional [...]
    python3 bench/others/peers.py --from-samples docs/lab/peers/samples.json

Takes about ten minutes, and longer the first time, because Go builds etcd and
NATS. Needs Go (https://go.dev/dl) for the load generators. A store that is not
installed is left out, and the page says how to install it. Each round starts
each store anew and runs the cases in `stores.py`, so that all stores are
affected alike if the speed of the machine drifts; the page shows medians.
`--seconds 30 --rounds 5` takes about two hours, and includes flushes,
compactions and rewrites of logs, which a short run does not. `--only Kvorum`
runs only the deployments whose names contain the text. `--conditional` compares
conditional writes instead, and writes docs/lab/conditional.md. `--from-samples` writes
the page again from the samples of an earlier run. The figures have no goals.
"""

import dataclasses
import datetime
import json
import pathlib
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import peers_page
import perf
from harness import CONNECTIONS, KEYS, WORK, Parser, figure, file_system, machine_ticks, print_summary, sync_milliseconds
from stores import StoreFailed, cpu_seconds, deployments, programs, versions

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "lab"
WARM_UP_SECONDS = 0.5


class Generator:
    """A running load generator, which prints when its measurement begins and ends."""

    def __init__(self, found, running, case_generator, nodes, *options):
        name, *own = case_generator
        addresses = ",".join(f"127.0.0.1:{port}" for port in running.ports[slice(*nodes)])
        command = [found[name], "-addresses", addresses, "-keys", str(KEYS), *own, *options]
        self.errors = open(WORK / "generator.log", "w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def wait_for(self, word):
        if self.process.stdout.readline().strip() != word:
            self.report()
            raise StoreFailed(f"{self.process.args[0]} did not print {word!r}")

    def report(self):
        """Waits for its end, and returns the rest of its output."""
        text = self.process.stdout.read()
        if self.process.wait():
            self.errors.seek(0)
            raise StoreFailed(self.errors.read().strip())
        return text


def measured_generator(found, running, case, seconds):
    return Generator(
        found, running, case.generator, case.nodes,
        "-connections", str(CONNECTIONS), "-method", case.method, "-warm-up", f"{WARM_UP_SECONDS}s", "-duration", f"{seconds}s",
    )  # fmt: skip


def fill(found, running, deployment):
    """Puts each key, over more connections than in the measurement, to save time."""
    Generator(found, running, deployment.fill, deployment.filled, "-fill", "-connections", "192").report()


def measure(found, running, case, seconds):
    """Runs a case once: requests, latencies, CPU time of the servers and of the generator."""
    generator = measured_generator(found, running, case, seconds)
    generator.wait_for("begin")
    before, generator_before, machine_before = running.cpu_seconds(), sum(cpu_seconds([generator.process.pid])), machine_ticks()
    generator.wait_for("end")
    after, generator_after, machine_after = running.cpu_seconds(), sum(cpu_seconds([generator.process.pid])), machine_ticks()
    resident_mib = running.resident_mib()
    report = json.loads(generator.report())
    if not report["requests"]:
        raise StoreFailed(report.get("first_error", "no request succeeded"))
    user, system = (now - then for now, then in zip(after, before))
    stolen, total = (now - then for now, then in zip(machine_after, machine_before))
    return {
        "rate": report["requests"] / report["seconds"],
        "cpu_us": (user + system) / report["requests"] * 1e6,
        "kernel_us": system / report["requests"] * 1e6,
        "generator_us": (generator_after - generator_before) / report["requests"] * 1e6,
        "p50": report["p50"],
        "p99": report["p99"],
        "p999": report["p999"],
        "max": report["max"],
        "errors": report["errors"],
        "resident_mib": resident_mib,
        "stolen": stolen / max(total, 1),
    }


def profile(found, running, case):
    """Counts and samples what the servers do, in a separate run, because this slows them."""
    generator = measured_generator(found, running, case, perf.SECONDS)
    generator.wait_for("begin")
    try:
        counted, sampled = perf.count(running.pids()), perf.sample(running.pids(), WORK / "perf.data")
    except subprocess.CalledProcessError:
        # For example, a process has just ended.
        counted = None
    generator.wait_for("end")
    report = json.loads(generator.report())
    if counted is None:
        return None
    rate = report["requests"] / report["seconds"]
    return {"counts": {name: count / rate for name, count in counted.items()}, "shares": sampled}


class Results:
    """The results of a run, from which the page is written."""

    def __init__(self):
        self.samples, self.profiles, self.failed = [], [], {}

    def take_round(self, number, chosen, found, arguments):
        # Every other round is in reverse order, so that no store always follows the same other one.
        for deployment in chosen if number % 2 == 0 else reversed(chosen):
            folder = WORK / f"{deployment.name}-{number}"
            try:
                running = deployment.start(found, folder)
                try:
                    self.take(number, deployment, running, found, arguments)
                finally:
                    running.stop()
            except StoreFailed as failure:
                self.failed[deployment.name] = str(failure)
                print(f"{deployment.name} failed: {failure}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)

    def take(self, number, deployment, running, found, arguments):
        if deployment.fill and any(case.method == "get" for case in deployment.cases):
            fill(found, running, deployment)
        for case in deployment.cases:
            name = {"group": case.group, "store": deployment.store, "label": case.label, "method": case.method}
            sample = measure(found, running, case, arguments.seconds)
            self.samples.append({**name, "generator": case.generator[0], "round": number, **sample})
            print(
                f"  {deployment.store:9} {case.group:13} {case.label:40} {sample['rate']:8.0f}/s  {sample['cpu_us']:6.1f} us"
                f"  p99 {sample['p99']:7.2f} ms{'  errors ' + str(sample['errors']) if sample['errors'] else ''}",
                flush=True,
            )
            if case.profiled and not arguments.conditional and number == 0 and perf.available():
                if seen := profile(found, running, case):
                    self.profiles.append({**name, **seen})


def machine():
    """The properties of the machine."""
    information = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", information)
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1))
    return {
        "processor": model.group(1) if model else platform.machine(),
        "cores": len(re.findall(r"^processor", information, re.M)),
        "virtual": "hypervisor" in information,
        "memory_gib": memory / 2**20,
        "kernel": platform.release(),
        "file_system": file_system(WORK.resolve(), pathlib.Path("/proc/self/mounts").read_text()),
        "sync": sync_milliseconds(),
    }


def is_asked(case, conditional):
    """Whether a run has a case: one of conditional writes has those, and the plain ones of the same durability."""
    is_conditional = case.group.startswith("conditional-")
    return is_conditional or case.group == "put-3-synced" if conditional else not is_conditional


def cases_of(deployment, conditional):
    asked = tuple(case for case in deployment.cases if is_asked(case, conditional))
    return dataclasses.replace(deployment, cases=asked)


def run(arguments):
    asked = [cases_of(deployment, arguments.conditional) for deployment in deployments()]
    if arguments.conditional:
        # Not the stores that have only the plain ones.
        asked = [deployment for deployment in asked if len(deployment.cases) > 1]
    chosen = [deployment for deployment in asked if deployment.cases and arguments.only in deployment.name + deployment.store]
    if not chosen:
        sys.exit(f"--only {arguments.only} matches none of: {' '.join(deployment.name for deployment in deployments())}")
    found, missing = programs(arguments.kvorum, {"wire", *(need for deployment in chosen for need in deployment.needs)})
    for needed in ("wire", "kvorum"):
        if needed in missing:
            sys.exit(f"{needed} is missing: {missing[needed]}")
    left_out = {
        f"{deployment.store} (`{need}`)": missing[need] for deployment in chosen for need in deployment.needs if need in missing
    }
    chosen = [deployment for deployment in chosen if not any(need in missing for need in deployment.needs)]
    results, before, began = Results(), machine_ticks(), datetime.datetime.now(datetime.timezone.utc)
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds}", flush=True)
        results.take_round(number, chosen, found, arguments)
    stolen, total = (now - then for now, then in zip(machine_ticks(), before))
    return {
        "command": shlex.join(["python3", "bench/others/peers.py", *sys.argv[1:]]),
        "began": began.strftime("%Y-%m-%d %H:%M UTC"),
        "commit": subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True).stdout.strip() or "unknown",
        "conditional": arguments.conditional,
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "machine": {**machine(), "stolen": stolen / max(total, 1)},
        "versions": versions(found),
        "left_out": left_out,
        "failed": results.failed,
        "profiles": results.profiles,
        "samples": results.samples,
    }


def print_figures(samples):
    """The CPU time a request of each case, the median of the rounds."""
    cases = {}
    for sample in samples:
        cases.setdefault((sample["group"], sample["store"], sample["label"]), []).append(sample["cpu_us"])
    for names, found in cases.items():
        figure(" ".join(names), statistics.median(found), "us of CPU a request", decimals=1)
    print_summary()


def main():
    parser = Parser(__doc__)
    parser.add_argument("--kvorum", default="target/dist/kvorum")
    parser.add_argument("--seconds", type=float, default=3, help="the measured time of each case in each round, after a warm-up of half a second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="run only deployments whose names contain this text")
    parser.add_argument("--conditional", action="store_true", help="compare conditional writes")
    parser.add_argument("--page", type=pathlib.Path, help="the page; its plots and samples go to a folder beside it")
    parser.add_argument("--from-samples", type=pathlib.Path, help="write the page again from the samples of an earlier run")
    arguments = parser.parse_args()
    if arguments.seconds <= 0 or arguments.rounds < 1:
        sys.exit("--seconds must be above 0 and --rounds at least 1")
    results = json.loads(arguments.from_samples.read_text()) if arguments.from_samples else run(arguments)
    if not results["samples"]:
        sys.exit("nothing was measured: " + "; ".join(f"{name}: {why}" for name, why in results["failed"].items()))
    page = arguments.page or PAGES / ("conditional.md" if results.get("conditional") else "peers.md")
    peers_page.write(page, results)
    print_figures(results["samples"])
    print(f"wrote {page}")


main()

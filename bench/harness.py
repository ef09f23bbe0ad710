"""What the benchmarks share: servers, load generators, CPU time, figures and their goals.

Needs nginx and wrk (`apt-get install nginx-light wrk`). Loads at a constant rate
are sent by `kvorum-lab load`, to nginx as well.

Throughput says little if the generator and the server share the cores, so the
figure is the CPU time per request of the server's processes (user and system,
all threads). The speed of a machine drifts, so each figure is the median ratio
of pairs of runs under the same load: nginx, then Kvorum.

Each figure is a row with its goal and whether it is met, as `figure` prints it.
Lines that begin with spaces are details, such as the single runs behind a median,
and what the host took of the cores meanwhile.

Data goes below the temporary folder (TMPDIR), which must be on a disk.
"""

import argparse
import atexit
import dataclasses
import http.client
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

TICKS = os.sysconf("SC_CLK_TCK")
CONNECTIONS = 64
KEYS = 100_000
START_SECONDS_MAX = 60
# File systems that are kept in memory: a sync of them takes no time.
IN_MEMORY = ("tmpfs", "ramfs")
WORK = pathlib.Path(tempfile.mkdtemp(prefix="kvorum-bench-"))
# A run may leave gigabytes behind, also one that `timeout` ends: so that stops its servers, too.
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

NGINX = """
worker_processes 2; daemon off; pid {work}/nginx.pid; error_log {work}/nginx.err;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {work}/body;
  server {{ listen 127.0.0.1:{port} reuseport; location / {{ return 201; }} }}
}}
"""

# Each wrk thread has a state of its own. The keys follow from Park and Miller's generator: its products are exact in the
# doubles that Lua has, so it returns to where it began after 2,147,483,646 numbers, not after some thousands.
LUA = """
local method, keys, length, prefix, suffix = "{method}", {keys}, {length}, "{prefix}", "{suffix}"
local ports = {{{ports}}}
local value, fields = string.rep("v", length), {{{fields}}}
local n, threads = 0, 0
function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
  thread.addr = wrk.lookup("127.0.0.1", tostring(ports[(threads - 1) % #ports + 1]))[1]
end
function init(args) n = 1 + number * 48271 end
function request()
  n = n * 16807 % 2147483647
  local path = "/v0/entity?id=" .. prefix .. string.format("%08d", n % keys) .. suffix
  if method == "PUT" then return wrk.format("PUT", path, fields, value) end
  return wrk.format("GET", path)
end
"""


def machine_ticks(text=None):
    """The CPU ticks that the host took from this virtual machine (steal), and all ticks, of /proc/stat."""
    text = pathlib.Path("/proc/stat").read_text() if text is None else text
    # user nice system idle iowait irq softirq steal; guests are in user. A kernel may tell fewer of them.
    fields = [int(field) for field in text.splitlines()[0].split()[1:9]]
    return fields[7] if len(fields) > 7 else 0, sum(fields)


class Steal:
    """What the host took of the cores since the last time that it was told."""

    def __init__(self):
        self.before = machine_ticks()

    def share(self, now=None):
        """The share, and begins anew. None if hardly any time has passed: no run was between."""
        now = now or machine_ticks()
        stolen, total = (after - before for after, before in zip(now, self.before))
        if total < TICKS:
            return None
        self.before = now
        return stolen / total

    def tell(self):
        """A detail beside a figure. Figures of the same run share it."""
        if (share := self.share()) is not None:
            print(f"  the host took {share:.1%} of the cores meanwhile", flush=True)


STEAL = Steal()


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a figure should be."""

    bound: float
    is_least: bool

    def is_met(self, value):
        return value >= self.bound if self.is_least else value <= self.bound

    def __str__(self):
        return f"{'>=' if self.is_least else '<='} {self.bound:,.10g}"


def at_most(bound):
    return Goal(bound, False)


def at_least(bound):
    return Goal(bound, True)


# Whether each figure that has a goal met it, in the order of the rows.
OUTCOMES = []


@dataclasses.dataclass
class Build:
    """The build whose figures are printed, and those of the build before it in turn."""

    name: str = ""
    figures: dict = dataclasses.field(default_factory=dict)


BUILD = Build()


def print_row(name, value, unit, goal, outcome):
    print(f"{name:44} {value:>12}  {unit:34} {goal:>12}  {outcome}".rstrip(), flush=True)


def figure(name, value, unit="", goal=None, decimals=2):
    """Prints a figure beside its goal, if it has one. A value of None could not be measured, and misses its goal."""
    STEAL.tell()
    if not OUTCOMES:
        print_row("figure", "value", "unit", "goal", "")
    is_met = goal and value is not None and goal.is_met(value)
    outcome = "" if goal is None else "ok" if is_met else "MISSED"
    OUTCOMES.append(outcome)
    if not BUILD.name:
        BUILD.figures[name] = value
    elif value and BUILD.figures.get(name) is not None:
        print(f"  {name}: {BUILD.figures[name] / value:.3f} times that of the other build", flush=True)
    print_row(BUILD.name + name, "none" if value is None else f"{value:,.{decimals}f}", unit, str(goal or "-"), outcome)


def print_summary():
    """Ends a benchmark: how many goals were met."""
    print(f"{OUTCOMES.count('ok')} goals met, {OUTCOMES.count('MISSED')} missed; {OUTCOMES.count('')} figures without a goal", flush=True)


class Parser(argparse.ArgumentParser):
    """A parser of options that ends the benchmark if its data would be in memory."""

    def __init__(self, description):
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def parse_args(self, *words):
        arguments = super().parse_args(*words)
        if refused := in_memory(WORK, pathlib.Path("/proc/self/mounts").read_text()):
            sys.exit(refused)
        return arguments


def command_line(description, cases=False, beside=False, **defaults):
    """A parser with the options that benchmarks share: --kvorum, of seconds and pairs those with a default, and cases,
    which may run with another build as well."""
    parser = Parser(description)
    parser.add_argument("--kvorum", default="target/dist/kvorum")
    if cases or beside:
        parser.add_argument("--beside", help="another build, with which each case runs in turn: its figures follow")
    helps = {"seconds": "the length of a run", "pairs": "how many runs, or pairs of runs, a figure is the median of"}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{helps[name]} ({default})")
    if cases:
        parser.add_argument("cases", nargs="*")
    return parser


def file_system(folder, mounts):
    """The type of the file system of a folder. A line of `mounts` is `/dev/vda / ext4 rw 0 0`; of the same mount point the last one counts."""
    found = [line.split() for line in mounts.splitlines()]
    above = [(len(pathlib.Path(point).parts), number, kind) for number, (_, point, kind, *_) in enumerate(found) if folder.is_relative_to(point)]
    return max(above)[2] if above else "unknown"


def in_memory(folder, mounts):
    """Why a folder may not have the data of a benchmark, if it may not."""
    kind = file_system(folder.resolve(), mounts)
    if kind in IN_MEMORY:
        return f"{folder.parent} is a {kind}, so nothing would reach a disk: let TMPDIR name a folder on one"
    return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, path="/", process=None):
    """Waits until a server answers; `process` is the one that may end before."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1)
            return
        except OSError:
            if process and process.poll() is not None:
                sys.exit(f"{process.args[0]} has ended: {last_line(WORK / 'log')}")
            time.sleep(0.05)
    sys.exit(f"nothing answered on port {port} within {START_SECONDS_MAX} s")


def last_line(file):
    """What a program has said last."""
    lines = file.read_text(errors="replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it said nothing")


def tree(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [p for child in children for p in tree(int(child))]


def cpu_seconds(pid):
    total = 0
    for process in tree(pid):
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def sync_milliseconds(count=1000):
    """The time of a sync of 4 KiB on the idle disk, over zeros, one sync after another, and its CPU time."""
    path, page, took = WORK / "sync", b"x" * 4096, []
    path.write_bytes(bytes(count * len(page)))
    with open(path, "r+b", buffering=0) as file:
        os.fsync(file.fileno())
        cpu_before = time.process_time()
        for number in range(count):
            started = time.monotonic()
            os.pwrite(file.fileno(), page, number * len(page))
            os.fdatasync(file.fileno())
            took.append((time.monotonic() - started) * 1e3)
        cpu_us = (time.process_time() - cpu_before) / count * 1e6
    path.unlink()
    took.sort()
    return {"p50": took[count // 2], "p99": took[count * 99 // 100], "p999": took[count * 999 // 1000], "cpu_us": cpu_us}


def print_syncs():
    """A detail to compare synced writes with."""
    disk = sync_milliseconds()
    print(f"  a bare loop of fdatasync on the idle disk, 4 KiB each: {disk['cpu_us']:.0f} us of CPU, "
          f"p50 {disk['p50']:.2f} p99 {disk['p99']:.2f} p99.9 {disk['p999']:.2f} ms", flush=True)


def resident_mib(pid, field="VmHWM"):
    """The resident memory of a process: its peak, or with VmRSS what it is now."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", text).group(1)) / 1024


class Server:
    def __init__(self, command, port, path):
        self.port = port
        self.ports = [port]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(WORK / "log", "a"))
        wait_for(port, path, self.process)

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Cluster:
    """Nodes that know each other. Load goes to all of them, or to those in `ports`."""

    def __init__(self, binary, name, nodes, *options):
        ports = [free_port() for _ in range(nodes)]
        members = ",".join(f"n{number}=http://127.0.0.1:{port}" for number, port in enumerate(ports))
        self.commands = [
            [binary, "serve", "--url", f"http://127.0.0.1:{port}", "--cluster", members, "--data", str(WORK / name / str(number)), *options]
            for number, port in enumerate(ports)
        ]
        self.all_ports, self.ports = ports, ports
        self.nodes = [None] * nodes
        # A node answers before it has met its peers, so starting them one after another does not block.
        for number in range(nodes):
            self.start(number)
        deadline = time.monotonic() + 30
        while any(peer["state"] not in ("up", "this node") for port in ports for peer in status_page(port)["cluster"]):
            if time.monotonic() > deadline:
                sys.exit("the nodes did not meet within 30 s")
            time.sleep(0.05)

    @property
    def port(self):
        return self.ports[0]

    def start(self, number):
        self.nodes[number] = Server(self.commands[number], self.all_ports[number], "/v0/status")

    def cpu_seconds(self):
        return sum(node.cpu_seconds() for node in self.nodes)

    def stop(self):
        for node in self.nodes:
            node.process.send_signal(signal.SIGCONT)
            node.process.send_signal(signal.SIGTERM)
        for node in self.nodes:
            node.process.wait()


def nginx():
    port = free_port()
    configuration = WORK / f"nginx-{port}.conf"
    configuration.write_text(NGINX.format(work=WORK, port=port))
    return Server(["nginx", "-c", str(configuration)], port, "/")


def kvorum(binary, name, *options):
    port = free_port()
    data = WORK / name
    command = [binary, "serve", "--url", f"http://127.0.0.1:{port}", "--data", str(data), *options]
    return Server(command, port, "/health/ready")


def wrk(server, method, seconds, keys=KEYS, length=64, connections=CONNECTIONS, prefix="key", suffix="", fields=None, refused=False):
    """CPU time per request in microseconds, and requests per second; keys begin with `prefix`, `suffix` is added to the query,
    and puts have these header fields. It says so if any answer is not a success, unless all are to be `refused`."""
    name = re.sub(r"[^0-9A-Za-z]", "-", f"{method}-{keys}-{length}-{prefix}-{suffix}-{fields or ''}")
    fields = ", ".join(f'["{name}"] = "{value}"' for name, value in (fields or {}).items())
    script = WORK / f"{name}.lua"
    script.write_text(LUA.format(method=method, keys=keys, length=length, prefix=prefix, suffix=suffix, fields=fields, ports=", ".join(map(str, server.ports))))
    command = ["wrk", f"-t{len(server.ports)}", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(script), f"http://127.0.0.1:{server.ports[0]}"]
    before = server.cpu_seconds()
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = server.cpu_seconds() - before
    requests = int(re.search(r"(\d+) requests in", text).group(1))
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    if (wrong and not refused) or "Socket errors" in text:
        print(f"    note: {text.splitlines()[-4:]}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
    return used / requests * 1e6, rate


def pipelined(port, lines, body, status):
    """Sends requests with the same body, pipelined over one connection, and expects this status of each."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        reader = connection.makefile("rb")
        for start in range(0, len(lines), 256):
            batch = lines[start : start + 256]
            head = b"%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s"
            connection.sendall(b"".join(head % (line, len(body), body) for line in batch))
            for _ in batch:
                answer = reader.readline()
                assert b" %d " % status in answer, answer
                length = 0
                while (line := reader.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                reader.read(length)


def batched(port, operations, status, suffix=""):
    """Sends operations as lines of batches with their length, and expects this status of each."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for start in range(0, len(operations), 10_000):
        batch = operations[start : start + 10_000]
        lines = "".join(json.dumps(operation) + "\n" for operation in batch)
        connection.request("POST", f"/v0/batch{suffix}", lines, {"Content-Type": "application/x-ndjson"})
        answers = connection.getresponse().read()
        assert answers.count(b'{"status":%d,' % status) == len(batch), answers[-1000:]
    connection.close()


def fill(server, keys, length=64, suffix=""):
    """Puts each of the keys once."""
    lines = [b"PUT /v0/entity?id=key%08d%s" % (key, suffix.encode()) for key in keys]
    pipelined(server.port, lines, b"v" * length, 201)


def status_page(port):
    return json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v0/status", timeout=5))


def metric(port, name):
    """The sum of a metric of a node over its labels."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? ([\d.e+-]+)", text, re.M))


def post(port, path):
    """Sends an order of an operator and waits for its end. Returns the answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method="POST", headers={"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=3600))


def urls(ports):
    return ",".join(f"http://127.0.0.1:{port}" for port in ports)


def generator():
    """The program that sends loads. It is the same for all nodes, of whatever build they are."""
    built = [pathlib.Path(f"target/{profile}/kvorum-lab") for profile in ("dist", "release")]
    found = next((program for program in built if program.exists()), None)
    return str(found) if found else sys.exit(f"{built[0]} is missing: cargo build --profile dist -p lab-cli")


def load(ports, *options):
    """Runs `kvorum-lab load` on these nodes. Returns what it measured, and as `stolen` what the host took of the CPU time."""
    command = [generator(), "load", "--url", urls(ports), "--json", "-", *map(str, options)]
    before = machine_ticks()
    done = subprocess.run(command, capture_output=True, text=True)
    stolen, total = (now - then for now, then in zip(machine_ticks(), before))
    if not done.stdout:
        sys.exit(f"{shlex.join(command)}: {done.stderr}")
    return {**json.loads(done.stdout), "stolen": stolen / max(total, 1)}


def open_loop(server, workload, rate, seconds, *options):
    """Requests at a rate over 64 connections. Latency counts from when a request was due."""
    # What nginx answers has no checksum.
    return load(server.ports, workload, "--rate", int(rate), "--duration", f"{seconds}s", "--verify", "off", *options)


def percentile(run, share):
    """The latency in milliseconds below which this share of the requests is; infinite if none succeeded."""
    return next((latency for point, latency in run["latency"]["spectrum"] if point >= 100 * share), float("inf"))


def latencies(run):
    """Percentiles as text."""
    return f"p50 {percentile(run, 0.5):.2f} p99 {percentile(run, 0.99):.2f} p99.9 {percentile(run, 0.999):.2f} ms"


def breaking_point(server, workload, *options):
    """The highest rate at which 99% of the requests succeed within 10 ms; None if there is none."""
    found = load(server.ports, workload, "--find-breaking-point", "--verify", "off", *options)
    print(f"  {workload}: breaking point {found['rate'] or 0:.0f}/s", flush=True)
    return found["rate"]


def settle(server):
    """Waits until the nodes have used hardly any CPU time for two seconds: nothing to flush or to compact any more."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        before = server.cpu_seconds()
        time.sleep(2)
        if server.cpu_seconds() - before < 0.2:
            return
    sys.exit("the nodes are still busy after 600 s")


def pairs(name, goal, method, arguments, start, suffix=""):
    """Measures nginx and the server of `start()` in turn; the figure is the median ratio."""
    ratios = []
    baseline, server = nginx(), start()
    # The generator gets as many threads for nginx as for the server.
    baseline.ports = baseline.ports * len(server.ports)
    try:
        for turn in range(arguments.pairs):
            base, base_rate = wrk(baseline, method, arguments.seconds)
            ours, rate = wrk(server, method, arguments.seconds, suffix=suffix)
            ratios.append(ours / base)
            print(f"  {name}: nginx {base:5.2f} us {base_rate:8.0f}/s   kvorum {ours:5.2f} us {rate:8.0f}/s   ratio {ours / base:.2f}", flush=True)
    finally:
        baseline.stop()
        server.stop()
    figure(name, statistics.median(ratios), "times nginx's CPU a request", goal)


def tail(name, goal, arguments, server, rate, *options):
    """p99.9 of PUTs at a rate, nginx and the server in turn; the figure is the median ratio."""
    ratios, baseline = [], nginx()
    try:
        for _ in range(arguments.pairs):
            floor, found = (open_loop(asked, "put", rate, arguments.seconds, *options) for asked in (baseline, server))
            ratios.append(percentile(found, 0.999) / percentile(floor, 0.999))
            for who, run in (("nginx", floor), ("kvorum", found)):
                print(f"  {name} at {rate:.0f}/s: {who:6} {latencies(run)}; the host took {run['stolen']:.1%} of the cores", flush=True)
    finally:
        baseline.stop()
    figure(name, statistics.median(ratios), "times nginx's p99.9", goal)


def overload(arguments, server, *options):
    """Asks for three times of what a closed loop gets, over 64 and over 4,096 connections."""
    for connections in (64, 4096):
        asked = ("put", "--connections", connections, *options)
        best = load(server.ports, *asked, "--duration", "6s")["succeeded"] / 6
        run = load(server.ports, *asked, "--rate", int(3 * best), "--duration", "15s")
        print(f"  {connections} connections: best {best:.0f}/s; at three times that rate {run['succeeded'] / 15:.0f}/s, "
              f"{latencies(run)}, failed {run['failed']}", flush=True)
        figure(f"overload-{connections}", run["succeeded"] / 15 / best, "of the best rate", at_least(0.8))


def in_turn(arguments, case):
    """Runs a case, and with --beside once more with that build: the speed of a machine drifts, so both run close together."""
    own = arguments.kvorum
    BUILD.figures.clear()
    for name, binary in (("", own), ("beside: ", arguments.beside)):
        if binary:
            BUILD.name, arguments.kvorum = name, binary
            case()
            # The nodes of the next build, or of the next case, begin without data.
            for folder in WORK.iterdir():
                if folder.is_dir():
                    shutil.rmtree(folder)
    BUILD.name, arguments.kvorum = "", own


def run_cases(cases, arguments):
    """Runs the chosen cases, or all."""
    unknown = [case for case in arguments.cases if case not in cases]
    if unknown:
        sys.exit(f"unknown case {unknown[0]}: choose from {' '.join(cases)}")
    for case in arguments.cases or cases:
        in_turn(arguments, cases[case])
    print_summary()

"""What the benchmarks share: servers, load generators, CPU time.

Needs nginx and wrk (`apt-get install nginx-light wrk`), and oha for loads at a
constant rate (`cargo install oha`).

Throughput says little if the generator and the server share the cores, so the
figure is the CPU time per request of the server's processes (user and system,
all threads). The speed of a machine drifts, so each figure is the median ratio
of pairs of runs under the same load: nginx, then Kvorum.
"""

import atexit
import json
import os
import pathlib
import re
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

# Each wrk thread has a state of its own; a linear congruential generator chooses the keys.
LUA = """
local method, keys, length, suffix = "{method}", {keys}, {length}, "{suffix}"
local ports = {{{ports}}}
local value = string.rep("v", length)
local n, threads = 0, 0
function setup(thread)
  threads = threads + 1
  thread.addr = wrk.lookup("127.0.0.1", tostring(ports[(threads - 1) % #ports + 1]))[1]
end
function init(args) n = math.random(1, keys) math.randomseed(os.time()) end
function request()
  n = (n * 1103515245 + 12345) % 2147483648
  local path = "/v0/entity?id=key" .. string.format("%08d", n % keys) .. suffix
  if method == "PUT" then return wrk.format("PUT", path, nil, value) end
  return wrk.format("GET", path)
end
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, path="/"):
    for _ in range(400):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1)
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing answered on port {port} within 20 s")


def tree(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [p for child in children for p in tree(int(child))]


def cpu_seconds(pid):
    total = 0
    for process in tree(pid):
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def machine_ticks():
    """The CPU ticks that the host took from this virtual machine (steal), and all ticks."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return fields[7], sum(fields)


def sync_milliseconds(count=1000):
    """The time of a sync of 4 KiB on the idle disk, over zeros, one sync after another."""
    path, page, took = WORK / "sync", b"x" * 4096, []
    path.write_bytes(bytes(count * len(page)))
    with open(path, "r+b", buffering=0) as file:
        os.fsync(file.fileno())
        for number in range(count):
            started = time.monotonic()
            os.pwrite(file.fileno(), page, number * len(page))
            os.fdatasync(file.fileno())
            took.append((time.monotonic() - started) * 1e3)
    path.unlink()
    took.sort()
    return {"p50": took[count // 2], "p99": took[count * 99 // 100], "p999": took[count * 999 // 1000]}


def resident_mib(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+)", text).group(1))
    return peak / 1024


class Server:
    def __init__(self, command, port, path):
        self.port = port
        self.ports = [port]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(WORK / "log", "a"))
        wait_for(port, path)

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
    return Server(command, port, "/v0/status")


def wrk(server, method, seconds, keys=KEYS, length=64, connections=CONNECTIONS, suffix=""):
    """CPU time per request in microseconds, and requests per second; `suffix` is added to the query."""
    name = re.sub(r"[^0-9A-Za-z]", "-", f"{method}-{keys}-{length}-{suffix}")
    script = WORK / f"{name}.lua"
    script.write_text(LUA.format(method=method, keys=keys, length=length, suffix=suffix, ports=", ".join(map(str, server.ports))))
    command = ["wrk", f"-t{len(server.ports)}", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(script), f"http://127.0.0.1:{server.ports[0]}"]
    before = server.cpu_seconds()
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = server.cpu_seconds() - before
    requests = int(re.search(r"(\d+) requests in", text).group(1))
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    if wrong or "Socket errors" in text:
        print(f"    note: {text.splitlines()[-4:]}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
    return used / requests * 1e6, rate


def fill(server, keys, length=64, suffix=""):
    """Puts each of the keys once, pipelined over one connection."""
    value = b"v" * length
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        reader = connection.makefile("rb")
        for start in range(0, len(keys), 256):
            batch = keys[start : start + 256]
            connection.sendall(
                b"".join(
                    b"PUT /v0/entity?id=key%08d%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" % (key, suffix.encode(), length, value)
                    for key in batch
                )
            )
            for _ in batch:
                status = reader.readline()
                assert b" 201 " in status, status
                body = 0
                while (line := reader.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        body = int(line.split(b":")[1])
                reader.read(body)


def status_page(port):
    return json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v0/status", timeout=5))


def metric(port, name):
    """The sum of a metric over its labels."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? ([\d.e+]+)", text, re.M))


def status(server):
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
    value = lambda name: sum(float(v) for v in re.findall(rf"^kvorum_store_{name}_total(?:{{[^}}]*}})? ([\d.e+]+)", text, re.M))
    return {"flushes": value("flushes"), "compactions": value("compactions")}


def oha(server, rate, seconds, connections=CONNECTIONS, correct=True, method="PUT", suffix=""):
    """Sends requests at a constant rate; with `correct`, latency counts from when a request was due."""
    correction = ["--latency-correction"] if correct else []
    # GET requests keys that `fill` has put.
    body, key = (["-d", "v" * 64], "[0-9a-f]{6}") if method == "PUT" else ([], "key000[0-9]{5}")
    command = ["oha", "--no-tui", "--output-format", "json", "-z", f"{seconds}s", "-q", str(int(rate)), "-c", str(connections),
               *correction, "-m", method, *body, "--rand-regex-url",
               f"http://127.0.0.1:{server.port}/v0/entity\\?id={key}{suffix}"]
    before = machine_ticks()
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    steal, total = (now - then for now, then in zip(machine_ticks(), before))
    percentiles = result["latencyPercentiles"]
    return {
        "rate": result["summary"]["requestsPerSec"],
        "done": sum(result["statusCodeDistribution"].get(code, 0) for code in ("200", "201")) / seconds,
        "p50": percentiles["p50"] * 1e3,
        "p99": percentiles["p99"] * 1e3,
        "p999": percentiles["p99.9"] * 1e3,
        "statuses": result["statusCodeDistribution"],
        # Requests in flight at the end are not errors.
        "errors": {error: count for error, count in result["errorDistribution"].items() if "deadline" not in error},
        "stolen": steal / max(total, 1),
    }


def pairs(name, limit, method, arguments, start, suffix=""):
    """Measures nginx and the server of `start()` in turn and prints the median ratio."""
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
    median = statistics.median(ratios)
    print(f"{name}: ratio {median:.2f} (bound {limit}) {'ok' if median <= limit else 'MISSED'}", flush=True)


def breaking_point(server, method, seconds, keys=KEYS, suffix=""):
    """The highest rate that holds: 99% achieved with a p99 of at most 10 ms; 0 if none does.

    The search begins at a quarter of what a closed loop gets and raises the rate
    by a fifth until two rates did not hold.
    """
    _, rate = wrk(server, method, 5, keys=keys, suffix=suffix)
    best, asked, failures = 0, rate / 4, 0
    while failures < 2:
        found = oha(server, asked, seconds, method=method, suffix=suffix)
        print(f"  {method} asked {asked:8.0f}/s: got {found['rate']:8.0f}/s, p50 {found['p50']:.2f} p99 {found['p99']:.2f} p99.9 {found['p999']:.2f} ms", flush=True)
        if found["rate"] >= 0.99 * asked and found["p99"] <= 10:
            best, asked, failures = asked, asked * 1.2, 0
        else:
            failures += 1
    return best


def overload(server, rates, suffix=""):
    """Asks for three times the best of `rates`, over 64 and over 4,096 connections."""
    for connections in (64, 4096):
        # The best rate that this generator reaches when its rate is not limited by the answers.
        best = max(oha(server, rate, 6, connections, correct=False, suffix=suffix)["done"] for rate in rates)
        found = oha(server, 3 * best, 15, connections, correct=False, suffix=suffix)
        share = found["done"] / best
        print(f"  {connections} connections: best {best:.0f}/s; at three times that rate {found['done']:.0f}/s, "
              f"p50 {found['p50']:.1f} p99 {found['p99']:.1f} p99.9 {found['p999']:.1f} ms, statuses {found['statuses']}", flush=True)
        print(f"overload-{connections}: {share:.0%} of the best (bound 80%) {'ok' if share >= 0.8 else 'MISSED'}", flush=True)


def run_cases(cases, chosen):
    """Runs the chosen cases, or all."""
    unknown = [case for case in chosen if case not in cases]
    if unknown:
        sys.exit(f"unknown case {unknown[0]}: choose from {' '.join(cases)}")
    for case in chosen or cases:
        cases[case]()

"""The stores that `peers.py` compares: how each is started, and which requests it gets.

A deployment is a store with its settings, which is started anew for each round;
its cases are the requests that it gets. The cases of a group may be compared:
they have the same number of copies and the same guarantee.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

from harness import START_SECONDS_MAX, TICKS, WORK, Cluster, free_port, kvorum, last_line, nginx, tree

PEERS = pathlib.Path(__file__).parent / "peers"
QUORUM = "&ack=2&from=3"
ANY = "&ack=1&from=3"
# The options that `kvorum dev` sets for nodes that share a machine.
SHARED = ("--memory", "512MiB", "--threads", "1")
# How long Go may take for a program, with nothing fetched yet.
BUILD_SECONDS_MAX = 900
# The nodes that get requests, as bounds of a slice.
ALL, FIRST, SECOND = (None,), (1,), (1, 2)


class StoreFailed(Exception):
    """A store did not start, or a generator failed; the text says why."""


@dataclasses.dataclass(frozen=True)
class Case:
    group: str
    label: str  # the settings and the requests, as the page names them
    method: str  # put or get
    generator: tuple  # the generator and its options
    nodes: tuple = ALL  # which of the nodes get requests
    profiled: bool = False


@dataclasses.dataclass(frozen=True)
class Deployment:
    store: str
    name: str  # also the name of its folder
    needs: tuple  # programs
    start: object  # takes the programs and a folder, returns a Running
    cases: tuple
    fill: tuple = ()  # the generator that puts each key first, for cases that read
    filled: tuple = ALL  # the nodes that it sends requests to


class Running:
    """The processes of a store, and the ports that its clients use."""

    def __init__(self, processes, ports):
        self.processes, self.ports = processes, ports

    def pids(self):
        """All processes, including those that a server has forked to rewrite a file."""
        for _ in range(100):
            try:
                return [pid for process in self.processes for pid in tree(process.pid)]
            except FileNotFoundError:
                # A process has ended meanwhile.
                continue
        raise StoreFailed(f"{self.processes[0].args[0]} keeps starting and ending processes")

    def cpu_seconds(self):
        """User and system time."""
        return cpu_seconds(self.pids())

    def resident_mib(self):
        """The resident memory of the servers, without forked processes, which share their pages."""
        pages = sum(int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1]) for process in self.processes)
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def cpu_seconds(pids):
    """User and system time of the processes and of their children that have ended."""
    user = system = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        user, system = user + int(fields[11]) + int(fields[13]), system + int(fields[12]) + int(fields[14])
    return user / TICKS, system / TICKS


def started(commands, ports, ready, seconds_max=START_SECONDS_MAX):
    """Starts the commands and waits until `ready()`; stops them if that fails."""
    log = open(WORK / "log", "a")
    running = Running([subprocess.Popen(command, stdout=log, stderr=log) for command in commands], ports)
    try:
        deadline = time.monotonic() + seconds_max
        while not answers(ready):
            gone = [process.args[0] for process in running.processes if process.poll() is not None]
            if gone:
                raise StoreFailed(f"{gone[0]} has ended: {last_line(WORK / 'log')}")
            if time.monotonic() > deadline:
                raise StoreFailed(f"{commands[0][0]} did not answer within {seconds_max} s")
            time.sleep(0.02)
    except BaseException:
        running.stop()
        raise
    return running


def answers(ready):
    """Whether `ready()` holds; a server that cannot be reached is not ready."""
    try:
        return ready()
    except OSError:
        return False


def says(port, request, expected, count=1):
    """Whether the response to a line contains the expected text `count` times."""
    with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.sendall(request)
        return connection.recv(65536).count(expected) == count


def healthy(ports, path):
    return all(urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1).status == 200 for port in ports)


def start_nginx(programs, folder):
    server = nginx()
    return Running([server.process], [server.port])


def start_kvorum(*options):
    def start(programs, folder):
        server = kvorum(programs["kvorum"], folder.name, *options)
        return Running([server.process], [server.port])

    return start


def start_kvorums(*options):
    def start(programs, folder):
        cluster = Cluster(programs["kvorum"], folder.name, 3, *SHARED, *options)
        return Running([node.process for node in cluster.nodes], cluster.all_ports)

    return start


def start_redis(replicas, *options):
    """A primary and its replicas, all with the same options."""

    def start(programs, folder):
        ports = [free_port() for _ in range(1 + replicas)]
        commands = []
        for number, port in enumerate(ports):
            data = folder / str(number)
            data.mkdir(parents=True)
            command = [programs["redis-server"], "--port", str(port), "--bind", "127.0.0.1", "--dir", str(data), "--save", "", *options]
            # By default the primary waits five seconds for more replicas.
            command += ["--repl-diskless-sync-delay", "0"]
            commands.append(command + (["--replicaof", "127.0.0.1", str(ports[0])] if number else []))
        # A replica rewrites its log after it has copied the primary.
        quiet = (b"aof_rewrite_in_progress:0", b"aof_rewrite_scheduled:0", b"rdb_bgsave_in_progress:0")
        settled = lambda port: all(says(port, b"INFO persistence\r\n", line) for line in quiet)
        met = lambda: says(ports[0], b"INFO replication\r\n", b"state=online", replicas)
        return started(commands, ports, lambda: met() and all(settled(port) for port in ports))

    return start


def start_memcached(programs, folder):
    port = free_port()
    user = ["-u", "root"] if os.geteuid() == 0 else []
    command = [programs["memcached"], "-p", str(port), "-U", "0", "-l", "127.0.0.1", "-m", "512", *user]
    return started([command], [port], lambda: says(port, b"version\r\n", b"VERSION"))


def start_etcd(nodes):
    def start(programs, folder):
        clients, peers = ([free_port() for _ in range(nodes)] for _ in range(2))
        members = ",".join(f"n{number}=http://127.0.0.1:{port}" for number, port in enumerate(peers))
        commands = [
            [
                programs["etcd"], "--name", f"n{number}", "--data-dir", str(folder / str(number)), "--log-level", "error",
                "--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls", f"http://127.0.0.1:{client}",
                "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                "--initial-cluster", members,
            ]
            for number, (client, peer) in enumerate(zip(clients, peers))
        ]  # fmt: skip
        return started(commands, clients, lambda: healthy(clients, "/health"))

    return start


NATS = """
server_name: n{number}
listen: "127.0.0.1:{client}"
http: "127.0.0.1:{monitor}"
jetstream {{ store_dir: "{data}", max_memory_store: 256MB, max_file_store: 8GB, {options} }}
cluster {{ name: bench, listen: "127.0.0.1:{peer}", routes: [{routes}] }}
"""


def start_nats(options=""):
    def start(programs, folder):
        clients, monitors, peers = ([free_port() for _ in range(3)] for _ in range(3))
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in peers)
        commands = []
        for number in range(3):
            data = folder / str(number)
            data.mkdir(parents=True)
            text = NATS.format(
                number=number, client=clients[number], monitor=monitors[number], peer=peers[number], routes=routes, data=data, options=options
            )
            (data / "conf").write_text(text)
            commands.append([programs["nats-server"], "-c", str(data / "conf")])
        return started(commands, clients, lambda: healthy(monitors, "/healthz"))

    return start


def http(query=""):
    return ("wire", "-protocol", "http", "-query", query)


REDIS, WAIT, MEMCACHED = (("wire", "-protocol", name) for name in ("redis", "redis-wait", "memcached"))
ETCD, NATS_CLIENTS = ("etcd-clients",), ("nats-clients", "-replicas", "3")
# So many keys that a random one is new. A second run would choose the same keys again, so such a
# case is not profiled.
CREATE = ("-create", "-keys", "1000000000000")
COUNTERS, ETCD_COUNTERS = ("kvorum-clients", "-query", QUORUM), (*ETCD, "-count")
ONE_KEY = ("-keys", "1")
MEMORY = ("--appendonly", "no")
EACH_SECOND = ("--appendonly", "yes", "--appendfsync", "everysec")
ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")


def deployments():
    """All deployments; those that are compared are next to each other."""
    etcd, nats, go_etcd, go_nats = "etcd", "nats-server", "etcd-clients", "nats-clients"
    case = Case
    return (
        Deployment("nginx", "nginx", ("nginx",), start_nginx, (
            case("floor", "`return 201`", "put", http(), profiled=True),
        )),
        Deployment("Kvorum", "kvorum-sync", ("kvorum",), start_kvorum("--durability", "sync"), (
            case("put-1-synced", "`sync`", "put", http(), profiled=True),
        )),
        Deployment("Redis", "redis-always", ("redis-server",), start_redis(0, *ALWAYS), (
            case("put-1-synced", "`appendfsync always`", "put", REDIS, profiled=True),
        )),
        Deployment("etcd", "etcd-one", (etcd, go_etcd), start_etcd(1), (
            case("put-1-synced", "one node", "put", ETCD, profiled=True),
            case("get-1", "one node", "get", ETCD),
        ), fill=ETCD),
        Deployment("Kvorum", "kvorum-interval", ("kvorum",), start_kvorum("--durability", "interval=1s"), (
            case("put-1-second", "`interval=1s`", "put", http()),
        )),
        Deployment("Redis", "redis-everysec", ("redis-server",), start_redis(0, *EACH_SECOND), (
            case("put-1-second", "`appendfsync everysec`", "put", REDIS),
        )),
        Deployment("Kvorum", "kvorum-os", ("kvorum",), start_kvorum("--durability", "os"), (
            case("put-1-system", "`os`", "put", http(), profiled=True),
            case("get-1", "`GET` 1/1", "get", http(), profiled=True),
        ), fill=http()),
        Deployment("Redis", "redis-memory", ("redis-server",), start_redis(0, *MEMORY), (
            case("put-1-system", "memory only", "put", REDIS, profiled=True),
            case("get-1", "memory only", "get", REDIS, profiled=True),
        ), fill=REDIS),
        Deployment("memcached", "memcached", ("memcached",), start_memcached, (
            case("put-1-system", "memory only", "put", MEMCACHED),
            case("get-1", "memory only", "get", MEMCACHED),
        ), fill=MEMCACHED),
        Deployment("Kvorum", "kvorums-sync", ("kvorum", "kvorum-clients"), start_kvorums("--durability", "sync"), (
            case("put-3-synced", "2/3, `sync`", "put", http(QUORUM), profiled=True),
            case("conditional-create", "2/3, `If-None-Match: *`", "put", (*http(QUORUM), *CREATE)),
            case("conditional-count", "2/3, `If-Match`", "put", COUNTERS),
            case("conditional-contended", "2/3, `If-Match`", "put", (*COUNTERS, *ONE_KEY)),
        )),
        Deployment("Redis", "redises-always", ("redis-server",), start_redis(2, *ALWAYS), (
            case("put-3-synced", "`WAIT 1`, `appendfsync always`", "put", WAIT, FIRST, profiled=True),
        )),
        Deployment("etcd", "etcds", (etcd, go_etcd), start_etcd(3), (
            case("put-3-synced", "three nodes", "put", ETCD, profiled=True),
            case("conditional-create", "a transaction that needs a new key", "put", (*ETCD, *CREATE)),
            case("conditional-count", "a transaction that compares the revision", "put", ETCD_COUNTERS),
            case("conditional-contended", "a transaction that compares the revision", "put", (*ETCD_COUNTERS, *ONE_KEY)),
            case("get-3-fresh", "linearizable", "get", ETCD, profiled=True),
            case("get-3-any", "serializable", "get", (*ETCD, "-serializable")),
        ), fill=ETCD),
        Deployment("NATS", "nats-sync", (nats, go_nats), start_nats("sync_interval: always"), (
            case("put-3-synced", "three copies, `sync_interval: always`", "put", NATS_CLIENTS),
        )),
        Deployment("Kvorum", "kvorums-interval", ("kvorum",), start_kvorums("--durability", "interval=1s"), (
            case("put-3-second", "2/3, `interval=1s`", "put", http(QUORUM)),
        )),
        Deployment("Redis", "redises-everysec", ("redis-server",), start_redis(2, *EACH_SECOND), (
            case("put-3-second", "`WAIT 1`, `appendfsync everysec`", "put", WAIT, FIRST, profiled=True),
            case("get-3-fresh", "of the primary", "get", REDIS, FIRST),
            case("get-3-any", "of a replica", "get", REDIS, SECOND),
        ), fill=WAIT, filled=FIRST),
        Deployment("Kvorum", "kvorums-os", ("kvorum",), start_kvorums("--durability", "os"), (
            case("put-3-system", "2/3, `os`", "put", http(QUORUM), profiled=True),
            case("get-3-fresh", "`GET` 2/3", "get", http(QUORUM), profiled=True),
            case("get-3-any", "`GET` 1/3", "get", http(ANY)),
        ), fill=http(QUORUM)),
        Deployment("NATS", "nats-default", (nats, go_nats), start_nats(), (
            case("put-3-system", "three copies, as it comes", "put", NATS_CLIENTS),
            case("get-3-any", "of any copy", "get", NATS_CLIENTS),
        ), fill=NATS_CLIENTS),
    )  # fmt: skip


DEBIAN = {"redis-server": "redis-server", "memcached": "memcached", "nginx": "nginx-light"}
GO = {
    "wire": "./wire",
    "kvorum-clients": "./kvorum-clients",
    "etcd-clients": "./etcd-clients",
    "nats-clients": "./nats-clients",
    "nats-server": "github.com/nats-io/nats-server/v2",
    "etcd": "go.etcd.io/etcd/server/v3",
}


def programs(binary, needed):
    """The path of each program that is needed, and how to install those that are missing."""
    found, missing = {}, {}
    if pathlib.Path(binary).is_file():
        found["kvorum"] = str(pathlib.Path(binary).resolve())
    else:
        missing["kvorum"] = "`cargo build --profile dist`, or name it with `--kvorum`"
    for name, package in (item for item in DEBIAN.items() if item[0] in needed):
        # Debian installs servers in folders that only root's PATH contains.
        if place := shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin"):
            found[name] = place
        else:
            missing[name] = f"`apt-get install {package}`"
    for name, package in (item for item in GO.items() if item[0] in needed):
        place = WORK / "bin" / name
        if not shutil.which("go"):
            missing[name] = "install Go from https://go.dev/dl, with which it is built"
            continue
        print(f"building {name}", flush=True)
        command = ["go", "build", "-trimpath", "-o", str(place), package]
        try:
            subprocess.run(command, cwd=PEERS, capture_output=True, text=True, check=True, timeout=BUILD_SECONDS_MAX)
            found[name] = str(place)
        except subprocess.TimeoutExpired:
            missing[name] = f"`go build {package}` in `bench/others/peers` has not ended within {BUILD_SECONDS_MAX} s"
        except subprocess.CalledProcessError as failed:
            missing[name] = f"`go build {package}` in `bench/others/peers` failed: {(failed.stderr.strip().splitlines() or ['it said nothing'])[-1]}"
    return found, missing


def versions(found):
    """The version of each store."""
    commands = {"Kvorum": ("kvorum", "--version"), "Redis": ("redis-server", "--version"), "memcached": ("memcached", "-V"),
                "nginx": ("nginx", "-v"), "etcd": ("etcd", "--version"), "NATS": ("nats-server", "--version")}  # fmt: skip
    texts = {}
    for store, (program, option) in commands.items():
        if program in found:
            ended = subprocess.run([found[program], option], capture_output=True, text=True)
            texts[store] = re.search(r"\d+\.\d+\.\d+", ended.stdout + ended.stderr).group(0)
    return texts

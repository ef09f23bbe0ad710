#!/usr/bin/env python3
"""A cluster of three nodes for a test of a client, in any language.

    KVORUM=target/release/kvorum clients/testing/nodes.py [--trust]

It starts `kvorum dev` on ports that it holds, in a temporary folder, and prints one line of JSON once all
nodes are ready: `urls`; with `--trust`, when the nodes speak TLS and want tokens, also `ca_file` and
`token_file`. Then it takes lines from its input: `kill 3`, `stop 3`, `start 3`, `freeze 3`,
`thaw 3` and `add`, as `kvorum dev` does, and `ready 3`, which waits until the node can take requests.
It answers each with a line of JSON: {} or {"error": "…"}; `add` with the `url` of the new node. The
nodes end with its input.
"""

import json
import os
import pathlib
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

NODES = 3
PORTS = 6  # Those of nodes that are added follow.
# Below the ports that Linux gives to connections, of which each keeps its own for a minute after its end.
PORTS_CHOICE = range(12_000, 20_000)
PORTS_TRIES_MAX = 1000
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


def held_port(port):
    """A socket that holds a port: who asks for it alone does not get it. A node does, because both its
    socket and this one may share it while at most one listens."""
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        raise
    # Only now: with this option from the beginning it would share the port of another holder.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


def held_ports(count):
    """Sockets that hold ports in a row, also while no node listens there."""
    for _ in range(PORTS_TRIES_MAX):
        first = random.choice(PORTS_CHOICE)
        held = []
        try:
            for port in range(first, first + count):
                held.append(held_port(port))
            return held
        except OSError:
            for each in held:
                each.close()
    sys.exit(f"nodes: found no {count} free ports in a row")


class Cluster:
    def __init__(self, program, folder, is_trusting):
        self.program, self.folder = program, folder
        self.data = folder / "data"
        self.ports = held_ports(PORTS)
        self.port = self.ports[0].getsockname()[1]
        self.scheme = "https" if is_trusting else "http"
        self.urls = [self.url_of(number) for number in range(1, NODES + 1)]
        self.ca_file = self.data / "tls" / "authority.pem" if is_trusting else None
        command = [program, "dev", "--nodes", str(NODES), "--port", str(self.port), "--data", self.data]
        command += ["--tls", "--tokens"] if is_trusting else []
        self.log = open(folder / "nodes.log", "wb")
        self.process = subprocess.Popen(
            [*command, "--log", "warn"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )

    def url_of(self, number):
        return f"{self.scheme}://127.0.0.1:{self.port + number - 1}"

    def wait_until_ready(self, url):
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                # The authority is made at the start.
                trusted = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None
                with urllib.request.urlopen(f"{url}/health/ready", timeout=5, context=trusted):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{url} is not ready:\n{(self.folder / 'nodes.log').read_text()}")

    def started(self):
        """What a test has to know, once all nodes are ready."""
        for url in self.urls:
            self.wait_until_ready(url)
        told = {"urls": self.urls}
        if self.ca_file:
            told.update(ca_file=str(self.ca_file), token_file=str(self.data / "admin-token"))
        return told

    def obey(self, words):
        if words[0] == "ready":
            self.wait_until_ready(self.url_of(int(words[1])))
            return {}
        command = [self.program, "dev", *words, "--data", self.data]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        if words[0] != "add":
            return {}
        self.urls.append(self.url_of(len(self.urls) + 1))
        self.wait_until_ready(self.urls[-1])
        return {"url": self.urls[-1]}

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for held in self.ports:
            held.close()
        self.log.close()


def main():
    program = os.environ.get("KVORUM", "kvorum")
    with tempfile.TemporaryDirectory(prefix="kvorum-clients-") as folder:
        cluster = Cluster(program, pathlib.Path(folder), "--trust" in sys.argv[1:])
        try:
            print(json.dumps(cluster.started()), flush=True)
            for line in sys.stdin:
                try:
                    answer = cluster.obey(line.split())
                except (RuntimeError, OSError, ValueError, IndexError) as error:
                    answer = {"error": str(error)}
                print(json.dumps(answer), flush=True)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks that a node keeps to its memory, whatever its clients send and do not read.

    cargo build --release
    python3 checks/memory.py [--kvorum target/release/kvorum] [--connections 16384] [--tls]

Each load runs against a node of its own, over as many connections as the node accepts:

heads    each client sends 60 KiB of a head and stops
answers  each requests values of 60 KiB and does not read
uploads  each puts a few values of 60 KiB and stays, idle
streams  each sends an endless batch of puts and gets and does not read
batches  each sends batches of gets with their length and does not read

Clients that are refused or disconnected reconnect at once. The resident memory of the node must stay within
1.5 times `--memory`, and the node must answer other clients afterwards. The
kernel needs some GiB for the buffers of the connections, and each process a file
descriptor for each of them.

With `--tls` all of that goes over TLS, and there are two loads more: clients that send
15 KiB of a record of 16 KiB, and clients that send 60 KiB of their first message and
never its end. It needs `openssl` for the certificate, and takes some minutes.
"""

import argparse
import pathlib
import resource
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

BYTES = 60 << 10
KEYS = 1000
HEAD = b"GET /v0/entity?id=a HTTP/1.1\r\nHost: localhost\r\nX: "
LONG_HEAD = HEAD + b"x" * (BYTES - len(HEAD))
# A record of TLS with 16 KiB of data, without its end.
PART_OF_RECORD = bytes([23, 3, 3, 0x40, 0]) + b"x" * (15 << 10)
# A first message of 64 KiB less one byte in records of 4 KiB, without its end.
HELLO = bytes([1, 0, 0xFF, 0xFF]) + b"x" * (BYTES - 4)
PART_OF_HELLO = b"".join(
    bytes([22, 3, 1, 0x10, 0]) + HELLO[begin : begin + 4096] for begin in range(0, BYTES, 4096)
)


class Node:
    def __init__(self, binary, memory_mib, is_tls):
        self.folder = tempfile.TemporaryDirectory(prefix="kvorum-memory-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http{'s' if is_tls else ''}://127.0.0.1:{self.port}"
        self.tls = None
        command = [
            binary, "serve", "--url", self.url, "--data", str(pathlib.Path(self.folder.name) / "store"),
            "--memory", f"{memory_mib}MiB", "--durability", "os", "--log", "warn",
        ]
        if is_tls:
            certificate, key = self.make_certificate()
            command += ["--tls-cert", certificate, "--tls-key", key]
            self.tls = ssl.create_default_context(cafile=certificate)
        self.process = subprocess.Popen(command)
        for _ in range(200):
            try:
                self.ask("/v0/status")
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("the node did not start within 10 s")

    def make_certificate(self):
        files = [str(pathlib.Path(self.folder.name) / name) for name in ("node.pem", "node.key")]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-subj", "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
             "-days", "1", "-out", files[0], "-keyout", files[1]],
            check=True, stderr=subprocess.DEVNULL,
        )
        return files

    def ask(self, path, method="GET", body=None):
        request = urllib.request.Request(self.url + path, data=body, method=method)
        with urllib.request.urlopen(request, timeout=30, context=self.tls) as reply:
            return reply.read()

    def resident_mib(self, field="VmRSS"):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        sys.exit("the node has ended")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


class Client:
    """A connection that sends `data` and never reads."""

    def __init__(self, node, poll, data, number):
        self.data = memoryview(data)
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # One address does not have enough ports, because clients reconnect.
        self.socket.bind((f"127.0.0.{2 + number % 200}", 0))
        self.socket.connect_ex(("127.0.0.1", node.port))
        poll.register(self.socket, select.EPOLLOUT | select.EPOLLRDHUP)

    def go_on(self, poll, events):
        """Continues to send; returns False once the connection has ended."""
        if events & (select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP):
            self.socket.close()
            return False
        try:
            while self.data:
                self.data = self.data[self.socket.send(self.data):]
            poll.modify(self.socket, select.EPOLLRDHUP)
        except BlockingIOError:
            pass
        except OSError:
            self.socket.close()
            return False
        return True


class TlsClient(Client):
    """The same over TLS. What `raw` is sends its data as it is, behind the handshake."""

    def __init__(self, node, poll, data, number, raw):
        super().__init__(node, poll, b"", number)
        self.plain, self.raw, self.is_ready = data, raw, False
        self.received, self.encrypted = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = node.tls.wrap_bio(self.received, self.encrypted, server_hostname="127.0.0.1")
        poll.modify(self.socket, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP)

    def go_on(self, poll, events):
        try:
            if not self.is_ready and events & select.EPOLLIN:
                self.received.write(self.socket.recv(1 << 16))
            if not self.is_ready:
                self.shake_hands()
        except BlockingIOError:
            pass
        except OSError:
            self.socket.close()
            return False
        if not super().go_on(poll, events):
            return False
        if not self.is_ready:
            poll.modify(self.socket, select.EPOLLIN | select.EPOLLRDHUP)
        return True

    def shake_hands(self):
        rest = b""
        try:
            self.session.do_handshake()
            self.is_ready = True
            if self.raw:
                rest = self.plain
            else:
                self.session.write(self.plain)
        except ssl.SSLWantReadError:
            pass
        self.data = memoryview(bytes(self.data) + self.encrypted.read() + rest)


def load(node, name, data, arguments, raw=False, shakes_hands=True):
    """Keeps the connections open for a while; returns the peak resident memory in MiB."""
    poll = select.epoll()
    sent = [data(number) for number in range(50)]
    clients, again, number, worst, served, ends = {}, 0, 0, 0, 0, time.monotonic() + arguments.seconds
    next_look = 0
    while time.monotonic() < ends:
        while len(clients) < arguments.connections and time.monotonic() < ends:
            if node.tls and shakes_hands:
                client = TlsClient(node, poll, sent[number % len(sent)], number, raw)
            else:
                client = Client(node, poll, sent[number % len(sent)], number)
            clients[client.socket.fileno()] = client
            number += 1
            if number % 256 == 0:
                break
        for descriptor, events in poll.poll(0.05, 4096):
            if descriptor in clients and not clients[descriptor].go_on(poll, events):
                del clients[descriptor]
                again += 1
        if time.monotonic() > next_look:
            next_look = time.monotonic() + 0.5
            worst = max(worst, node.resident_mib())
    full = len(clients)
    for client in clients.values():
        client.socket.close()
    # The node must still answer.
    for _ in range(100):
        try:
            node.ask("/v0/entity?id=0")
            served += 1
        except OSError:
            time.sleep(0.1)
        if served == 10:
            break
    else:
        sys.exit(f"{name}: the node no longer answers")
    print(f"{name}: {worst:.0f} MiB peak resident memory with {full} open connections; the node closed {again}")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvorum", default="target/release/kvorum")
    parser.add_argument("--connections", type=int, default=16384)
    parser.add_argument("--memory", type=int, default=1024, help="in MiB")
    parser.add_argument("--requests", type=int, default=100, help="how many requests each reader sends: more than the kernel can buffer the responses of")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--tls", action="store_true", help="all of it over TLS, and loads that only TLS has")
    parser.add_argument("--loads", nargs="*", help="only these")
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < arguments.connections + 200:
        sys.exit(f"{hard} open files are not enough for {arguments.connections} connections: raise the limit (ulimit -Hn)")

    def ask_for(number):
        key = number % KEYS
        return b"GET /v0/entity?id=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % key * arguments.requests

    def upload(number):
        head = b"PUT /v0/entity?id=%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        return (head % (number % KEYS, BYTES) + b"v" * BYTES) * 4

    def lines(number):
        put = b'{"op":"put","key":"small","value":"v"}\n'
        return put * 100 + b'{"op":"get","key":"%d"}\n' % (number % KEYS) * 20

    batch = b"POST /v0/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"

    def stream(number):
        chunk = lines(number)
        chunk = b"%x\r\n%s\r\n" % (len(chunk), chunk)
        return batch + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * arguments.requests

    def whole(number):
        body = lines(number) * 10
        return batch + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    failed = False
    loads = [("heads", lambda number: LONG_HEAD, {}), ("answers", ask_for, {}), ("uploads", upload, {}),
             ("streams", stream, {}), ("batches", whole, {})]
    if arguments.tls:
        loads.append(("records", lambda number: PART_OF_RECORD, {"raw": True}))
        loads.append(("handshakes", lambda number: PART_OF_HELLO, {"shakes_hands": False}))
    for name, data, how in loads:
        if arguments.loads and name not in arguments.loads:
            continue
        node = Node(arguments.kvorum, arguments.memory, arguments.tls)
        for key in range(KEYS):
            node.ask(f"/v0/entity?id={key}", "PUT", key.to_bytes(2, "big") * (BYTES // 2))
        before = node.resident_mib()
        worst = load(node, name, data, arguments, **how)
        bound = arguments.memory * 1.5
        failed |= worst > bound
        print(f"  bound {bound:.0f} MiB, before the load {before:.0f} MiB: {'MISSED' if worst > bound else 'ok'}")
        node.stop()
    sys.exit(failed)


if __name__ == "__main__":
    main()

"""The clients against three real nodes, of which one is killed."""

from __future__ import annotations

import socket
import threading
import unittest
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List, Optional, Tuple

import kvorum
from tests.support import Blocking, Cluster, closed_port

BINARY = b"\xff\x00\n+& \xfe"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class CuttingProxy:
    """Passes bytes between a client and a node, and cuts each connection after some of the node's."""

    def __init__(self, url: str, bytes_max: int) -> None:
        host, _, port = url.rpartition("/")[2].partition(":")
        self._target, self._bytes_max = (host, int(port)), bytes_max
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        left = self._bytes_max
        with client, socket.create_connection(self._target) as node:
            threading.Thread(target=self._pass_requests, args=(client, node), daemon=True).start()
            while left > 0:
                data = node.recv(min(left, 1 << 16))
                if not data:
                    return
                left -= len(data)
                client.sendall(data)
            self.cuts += 1
            client.shutdown(socket.SHUT_RDWR)

    def _pass_requests(self, client: socket.socket, node: socket.socket) -> None:
        try:
            while data := client.recv(1 << 16):
                node.sendall(data)
            node.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # One of the two is closed.

    def close(self) -> None:
        self._listener.close()


class ClusterTest:
    make: Any
    cluster: Cluster
    client: Any

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.client = cls.make(*cls.cluster.urls)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.cluster.close()

    def test_values(self: Any) -> None:
        client = self.client
        for key, value in (("text/é", "wörld"), (BINARY, BINARY), (b"empty", b""), ("long", b"x" * 3_000_000)):
            written = client.put(key, value)
            entity, head = client.get(key), client.head(key)
            self.assertEqual(entity.value, value.encode() if isinstance(value, str) else value)
            self.assertEqual((entity.version, entity.etag), (written.version, written.etag))
            self.assertEqual((head.version, head.etag, head.value), (written.version, written.etag, b""))
            same = client.get(key, if_none_match=written.etag)
            self.assertTrue(same.not_modified and not entity.not_modified)
            self.assertGreater(client.delete(key).version, written.version)
            self.assertIsNone(client.get(key))
            self.assertIsNone(client.head(key))
        self.assertEqual(client.get("never", ack=1, from_=1), None)

    def test_expiry(self: Any) -> None:
        client = self.client
        client.put("session", "v", ttl=3600)
        expires = client.get("session").expires
        now = datetime.now(timezone.utc)
        self.assertLess(now + timedelta(seconds=3000), expires)
        self.assertLess(client.touch("session", ttl=600).version, client.touch("session", ttl=7200).version)
        self.assertLess(expires, client.head("session").expires)
        client.touch("session")
        entity = client.get("session")
        self.assertEqual((entity.expires, entity.value), (None, b"v"))
        with self.assertRaises(kvorum.ConflictError) as raised:
            client.touch("no session", ttl=60)
        self.assertEqual((raised.exception.version, raised.exception.etag), (None, None))

    def test_conditions(self: Any) -> None:
        client = self.client
        first = client.put("condition", "1", if_absent=True)
        with self.assertRaises(kvorum.ConflictError) as raised:
            client.put("condition", "2", if_absent=True)
        self.assertEqual((raised.exception.version, raised.exception.etag), (first.version, first.etag))
        second = client.put("condition", "2", if_match=first.etag)
        third = client.put("condition", "3", if_match=second.version)
        for stale in (first.etag, second.version):
            self.assertRaises(kvorum.ConflictError, client.put, "condition", "x", if_match=stale)
            self.assertRaises(kvorum.ConflictError, client.delete, "condition", if_match=stale)
            self.assertRaises(kvorum.ConflictError, client.touch, "condition", if_match=stale)
        client.put("condition", "4", if_match="*")
        self.assertLess(third.version, client.head("condition").version)
        client.delete("condition", if_match="*")
        self.assertRaises(kvorum.ConflictError, client.put, "condition", "5", if_match="*")

    def test_a_batch(self: Any) -> None:
        client = self.client
        etag = client.put("batch/old", "1").etag
        results = client.batch(
            [
                kvorum.Put(BINARY, BINARY, ttl=60),
                kvorum.Get(BINARY),
                kvorum.Get("batch/none"),
                kvorum.Put("batch/old", "2", if_absent=True),
                kvorum.Put("batch/old", "2", if_match=etag),
                kvorum.Touch("batch/old", ttl=60),
                kvorum.Delete(BINARY),
                kvorum.Delete("batch/old", if_match=1),
            ]
        )
        self.assertEqual([result.status for result in results], [201, 200, 404, 412, 201, 201, 202, 412])
        self.assertEqual((results[1].value, results[1].version), (BINARY, results[0].version))
        self.assertIsNotNone(results[1].expires)
        self.assertIsNone(results[2].error)
        conflict = results[3].error
        self.assertIsInstance(conflict, kvorum.ConflictError)
        self.assertEqual(conflict.version, int(etag[1:17], 16))
        self.assertEqual(client.batch([]), [])

    def test_scans(self: Any) -> None:
        client, keys = self.client, [b"scan/%03d" % number for number in range(200)] + [b"scan/\xff"]
        client.batch([kvorum.Put(key, key + b"=", ttl=600 if key < b"scan/1" else None) for key in keys])
        entities = list(client.scan(prefix="scan/"))
        self.assertEqual([entity.key for entity in entities], keys)
        self.assertTrue(all(entity.value == entity.key + b"=" for entity in entities))
        self.assertTrue(entities[0].expires and not entities[150].expires)
        some = list(client.scan(start="scan/010", end="scan/020", limit=5, values=False))
        self.assertEqual([(entity.key, entity.value) for entity in some], [(key, b"") for key in keys[10:15]])
        self.assertEqual(client.count(prefix="scan/"), len(keys))
        self.assertEqual(client.count(start="b", end="a"), 0)
        self.assertEqual(list(client.scan(start="b", end="a")), [])
        self.assertEqual(client.count(prefix="scan/", scope="node"), len(keys))
        self.assertEqual(len(list(client.scan(prefix="scan/", scope="node"))), len(keys))
        unfinished = client.scan(prefix="scan/")
        self.assertEqual(next(unfinished).key, keys[0])
        unfinished.close()
        self.assertEqual(client.get(keys[0]).value, keys[0] + b"=")
        # An entity of a scan is a condition.
        client.delete(entities[0].key, if_match=entities[0].version)

    def test_scans_over_connections_that_break(self: Any) -> None:
        keys = [b"cut/%03d" % number for number in range(100)]
        self.client.batch([kvorum.Put(key, b"v" * 1000) for key in keys])
        proxy = CuttingProxy(self.cluster.urls[0], 30_000)
        client = type(self).make(proxy.url, rounds=2)
        try:
            self.assertEqual([entity.key for entity in client.scan(prefix="cut/")], keys)
            self.assertEqual([entity.key for entity in client.scan(prefix="cut/", limit=70)], keys[:70])
            self.assertGreaterEqual(proxy.cuts, 5)
        finally:
            client.close()
            proxy.close()

    def put_orders(self: Any) -> None:
        orders = (("1", "DE", 120.5), ("2", "FR", 80), ("3", "DE", 310), ("4", "FR", 150))
        values = {f"order/{key}": f'{{"country":"{country}","total":{total}}}' for key, country, total in orders}
        values["order/note"] = "call back"
        self.client.batch([kvorum.Put(key, value) for key, value in values.items()])

    def test_conditions_of_scans(self: Any) -> None:
        client, where = self.client, "value.total > 100"
        self.put_orders()
        found = [entity.key for entity in client.scan(prefix="order/", where=where, values=False)]
        self.assertEqual(found, [b"order/1", b"order/3", b"order/4"])
        self.assertEqual([each.key for each in client.scan(prefix="order/", where=where, limit=1)], found[:1])
        for scope in ("cluster", "node"):
            self.assertEqual(client.count(prefix="order/", where="value.country == 'FR'", scope=scope), 2)
        with self.assertRaises(kvorum.RefusedError) as raised:
            client.count(where="value.total >")
        self.assertEqual(raised.exception.status, 400)
        self.assertRaises(kvorum.RefusedError, list, client.scan(where="key"))

    def test_aggregates(self: Any) -> None:
        client = self.client
        self.put_orders()
        functions = [kvorum.Sum("value.total"), kvorum.Min("value.total"), kvorum.Max("version")]
        found = client.aggregate(functions, by=["value.country"], prefix="order/", where="key != 'order/2'", ack=2, from_=3)
        self.assertEqual((found.keys, found.matched, found.ack, found.from_), (5, 4, 2, 3))
        self.assertEqual([(group.by, group.count) for group in found.groups], [(["DE"], 2), (["FR"], 1), ([None], 1)])
        versions = {entity.key: entity.version for entity in client.scan(prefix="order/")}
        self.assertEqual(
            found.groups[0].aggregates,
            [
                kvorum.Aggregate("sum", 430.5, 2),
                kvorum.Aggregate("min", 120.5, 2),
                kvorum.Aggregate("max", max(versions[b"order/1"], versions[b"order/3"]), 2),
            ],
        )
        self.assertEqual(found.groups[2].aggregates[0], kvorum.Aggregate("sum", None, 0))
        of_node = client.aggregate(prefix="order/", scope="node")
        self.assertEqual(of_node, kvorum.Aggregates(5, 5, None, None, [kvorum.Group([], 5, [])]))
        client.put(b"binary/\xff", b"{}")
        self.assertEqual(client.aggregate(start=b"binary/\xff", end=b"binary/\xff\0").matched, 1)
        self.assertEqual(client.aggregate(start="b", end="a").keys, 0)
        with self.assertRaises(kvorum.RefusedError) as raised:
            client.aggregate([kvorum.Sum("value +")])
        self.assertEqual((raised.exception.status, raised.exception.problem["parameter"]), (400, "aggregates"))
        self.assertRaises(ValueError, client.aggregate, by="value.country")

    def test_pages(self: Any) -> None:
        self.assertEqual(sorted(each.url for each in self.client.replicas("k")), sorted(self.cluster.urls))
        self.assertEqual(self.client.status()["state"], "serving")

    def test_a_wrong_request_names_its_trace(self: Any) -> None:
        with self.assertRaises(kvorum.RefusedError) as raised:
            self.client.put("k", "v", ack=9, traceparent=TRACE)
        error = raised.exception
        self.assertEqual((error.status, error.type), (400, "bad-parameter"))
        self.assertEqual(error.problem["trace"], TRACE.split("-")[1])

    def test_too_few_replicas_leave_a_receipt(self: Any) -> None:
        self.cluster.tell("stop 3")
        try:
            with self.assertRaises(kvorum.UnknownOutcomeError) as raised:
                self.client.put("few", "v", ack=3, from_=3)
            error = raised.exception
            outcomes = {each["url"]: each["outcome"] for each in error.replicas}
            self.assertIn(outcomes[self.cluster.urls[2]], ("refused", "suspected", "timeout"))
            self.assertIsInstance(error.version, int)
            with self.assertRaises(kvorum.UnavailableError):
                self.client.get("few", ack=3, from_=3, timeout=3)
            self.client.put("few", "v")
        finally:
            self.cluster.tell("start 3")
            self.cluster.tell("ready 3")

    def test_a_node_is_killed(self: Any) -> None:
        """Writes and reads go on. Only writes under way at that moment may be unknown."""
        written: Dict[str, int] = {}
        failed: List[Tuple[str, BaseException]] = []
        progress, is_over = threading.Condition(), threading.Event()

        def work(worker: int) -> None:
            client = type(self).make(*self.cluster.urls)
            number = 0
            while not is_over.is_set():
                key, number = f"kill/{worker}/{number:06}", number + 1
                try:
                    version = client.put(key, key).version
                    entity = client.get(key)
                    assert entity is not None and entity.version == version
                    with progress:
                        written[key] = version
                        progress.notify_all()
                except BaseException as error:
                    failed.append((key, error))
            client.close()

        def wait_for(more: int) -> None:
            with progress:
                wanted = len(written) + more
                self.assertTrue(progress.wait_for(lambda: len(written) >= wanted, 60))

        workers = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for worker in workers:
            worker.start()
        try:
            wait_for(100)
            self.cluster.tell("stop 1" if type(self).make is Blocking else "kill 1")
            wait_for(200)
        finally:
            is_over.set()
            for worker in workers:
                worker.join()
            self.cluster.tell("start 1")
            self.cluster.tell("ready 1")
        others = [error for _, error in failed if not isinstance(error, kvorum.UnknownOutcomeError)]
        self.assertEqual(others, [])
        found = {entity.key.decode(): entity.version for entity in self.client.scan(prefix="kill/")}
        self.assertEqual({key: found.get(key) for key in written}, written)


class ClientClusterTest(ClusterTest, unittest.TestCase):
    make = kvorum.Client


class AsyncClientClusterTest(ClusterTest, unittest.TestCase):
    make = Blocking


class TrustTest(unittest.TestCase):
    """Nodes that speak TLS and want a token."""

    cluster: Optional[Cluster] = None

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster("--trust")

    @classmethod
    def tearDownClass(cls) -> None:
        assert cls.cluster is not None
        cls.cluster.close()

    def test_tls_and_tokens(self) -> None:
        assert self.cluster is not None
        told = self.cluster.told
        urls, ca_file, token_file = told["urls"], told["ca_file"], told["token_file"]
        makes: Tuple[Any, ...] = (kvorum.Client, Blocking)
        for make in makes:
            client = make(closed_port(), *urls, ca_file=ca_file, token_file=token_file)
            client.put("k", "v")
            self.assertEqual(client.get("k").value, b"v")
            self.assertIn(b"k", [entity.key for entity in client.scan()])
            client.close()
            client = make(*urls, ca_file=ca_file, token="no-token")
            with self.assertRaises(kvorum.RefusedError) as raised:
                client.get("k")
            self.assertEqual((raised.exception.status, raised.exception.type), (401, "no-token"))
            client.close()
            client = make(*urls, token_file=token_file)
            with self.assertRaises(kvorum.UnavailableError) as distrusted:
                client.put("k", "v")
            # Distrust lasts, so there is no second round.
            self.assertEqual(len(distrusted.exception.attempts), len(urls))
            client.close()


if __name__ == "__main__":
    unittest.main()

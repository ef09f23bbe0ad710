"""What the clients do with nodes that fail in every way."""

from __future__ import annotations

import os
import pathlib
import tempfile
import unittest
from typing import Any, Dict, List

import kvorum
from kvorum._caller import pause
from kvorum._errors import AttemptError, Outcome
from tests.support import Blocking, Fake, answer, closed_port, lines, problem

OK = answer(201)


class FakesTest:
    make: Any

    def setUp(self) -> None:
        self.opened: List[Any] = []

    def tearDown(self) -> None:
        for each in self.opened:
            each.close()

    def fake(self, *answers: Any, **options: Any) -> Fake:
        made = Fake(*answers, **options)
        self.opened.insert(0, made)
        return made

    def client(self, *nodes: Any, **options: Any) -> Any:
        urls = [getattr(node, "url", node) for node in nodes]
        self.opened.insert(0, type(self).make(*urls, **{"rounds": 2, **options}))
        return self.opened[0]

    def test_a_write_is_sent_once_if_the_connection_breaks_after_it(self: Any) -> None:
        broken, other = self.fake(None), self.fake(OK)
        with self.assertRaises(kvorum.UnknownOutcomeError):
            self.client(broken, other).put("k", "v")
        self.assertEqual((len(broken.requests), len(other.requests)), (1, 0))

    def test_a_read_goes_on_at_the_next_node(self: Any) -> None:
        broken, other = self.fake(None), self.fake(answer(200, b"v"))
        entity = self.client(broken, other).get("k")
        self.assertEqual((entity.value, entity.version), (b"v", 7))

    def test_an_aggregate_goes_on_at_the_next_node(self: Any) -> None:
        foreign = answer(200, b'{"keys":1}', content_type="application/json")
        whole = answer(200, b'{"keys":1,"matched":1,"groups":[]}', content_type="application/json")
        broken, other, last = self.fake(None), self.fake(foreign), self.fake(whole)
        found = self.client(broken, other, last).aggregate(scope="cluster")
        self.assertEqual(found, kvorum.Aggregates(1, 1, None, None, []))

    def test_a_write_goes_on_where_nothing_was_sent(self: Any) -> None:
        other = self.fake(OK)
        self.assertEqual(self.client(closed_port(), other).put("k", "v").version, 7)

    def test_a_write_goes_on_after_what_was_not_applied(self: Any) -> None:
        for refusal in (
            problem(503, "overloaded", retry_after=9),
            problem(504, "not-enough-replicas", outcome="not-applied"),
            problem(408, "late-body"),
            problem(400, "broken-body"),
        ):
            refusing, other = self.fake(refusal), self.fake(OK)
            self.client(refusing, other).put("k", "v")
            self.assertEqual((len(refusing.requests), len(other.requests)), (1, 1))

    def test_a_single_node_is_asked_again_after_a_503(self: Any) -> None:
        node = self.fake(problem(503, "overloaded", retry_after=0), OK)
        self.client(node).put("k", "v")
        self.assertEqual((len(node.requests), node.connections), (2, 1))

    def test_a_write_stops_at_an_unknown_outcome(self: Any) -> None:
        receipt = [{"url": "http://a", "outcome": "timeout"}]
        for unknown in (
            problem(504, "not-enough-replicas", timestamp="12", replicas=receipt),
            problem(500, "scan-failed"),
            answer(503, b"<html>", content_type="text/html"),
            answer(200, b"<html>", content_type="text/html"),
            answer(503, b'{"type":"about:blank"}', content_type="application/problem+json"),
            b"HTTP/1.1 201 X\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 201 X\r\nkvorum-version: 7\r\ncontent-length: 9\r\n\r\ncut",
            b"SSH-2.0-x\r\n\r\n",
        ):
            node, other = self.fake(unknown, closes=True), self.fake(OK)
            with self.assertRaises(kvorum.UnknownOutcomeError) as raised:
                self.client(node, other).put("k", "v")
            self.assertEqual(len(other.requests), 0)
            if b"timestamp" in unknown:
                self.assertEqual((raised.exception.version, raised.exception.replicas), (12, receipt))

    def test_a_silent_node_is_left(self: Any) -> None:
        silent, other = self.fake(b"", b""), self.fake(answer(200, b"v"))
        client = self.client(silent, other, attempt_timeout=1.0)
        self.assertEqual(client.get("k").value, b"v")
        with self.assertRaises(kvorum.UnknownOutcomeError):
            self.client(silent, other, attempt_timeout=1.0).put("k", "v")

    def test_a_foreign_404_is_no_absence(self: Any) -> None:
        page = answer(404, b"<html>", content_type="text/html")
        other = self.fake(answer(200, b"v"))
        self.assertEqual(self.client(self.fake(page), other).get("k").value, b"v")
        absent = self.fake(problem(404, "no-such-entity"))
        self.assertIsNone(self.client(absent).get("k"))

    def test_errors_that_are_final(self: Any) -> None:
        other = self.fake(OK)
        conflict = self.fake(problem(412, "other-version"))
        with self.assertRaises(kvorum.ConflictError) as raised:
            self.client(conflict, other).put("k", "v", if_absent=True)
        self.assertEqual(raised.exception.version, 7)
        self.assertIn("If-None-Match: *", conflict.requests[0])
        with self.assertRaises(kvorum.RefusedError) as refused:
            self.client(self.fake(problem(403, "no-right")), other).put("k", "v")
        self.assertEqual((refused.exception.status, refused.exception.type), (403, "no-right"))
        self.assertEqual(len(other.requests), 0)

    def test_rounds_are_bounded(self: Any) -> None:
        first, second = closed_port(), closed_port()
        with self.assertRaises(kvorum.UnavailableError) as raised:
            self.client(first, second, rounds=3).put("k", "v")
        self.assertEqual(len(raised.exception.attempts), 6)

    def test_a_failed_node_is_asked_last(self: Any) -> None:
        broken, other = self.fake(None), self.fake(*[answer(200, b"v")] * 3)
        client = self.client(broken, other)
        for _ in range(3):
            client.get("k")
        self.assertEqual((len(broken.requests), len(other.requests)), (1, 3))
        # Also if none has answered since.
        broken, other = self.fake(None, OK), self.fake(OK)
        client = self.client(broken, other)
        self.assertRaises(kvorum.UnknownOutcomeError, client.put, "k", "v")
        client.put("k", "v")
        self.assertEqual((len(broken.requests), len(other.requests)), (1, 1))

    def test_connections_are_kept(self: Any) -> None:
        node = self.fake(*[OK] * 5)
        client = self.client(node)
        for _ in range(5):
            client.put("k", "v")
        self.assertEqual((len(node.requests), node.connections), (5, 1))

    def test_a_connection_that_the_node_has_closed_is_not_used(self: Any) -> None:
        node = self.fake(OK, OK, closes=True)
        client = self.client(node)
        client.put("k", "v")
        self.assertTrue(node.closed.wait(10))
        client.put("k", "v")
        self.assertEqual(node.connections, 2)

    def test_a_batch_that_is_cut_keeps_what_was_answered(self: Any) -> None:
        cut = lines([{"status": 201, "version": "5"}], is_whole=False)
        node, other = self.fake(cut, closes=True), self.fake(OK)
        operations = [kvorum.Put("a", "1"), kvorum.Put("b", "2"), kvorum.Get("c")]
        done, lost, unread = self.client(node, other).batch(operations)
        self.assertEqual((done.status, done.version, done.error), (201, 5, None))
        self.assertIsInstance(lost.error, kvorum.UnknownOutcomeError)
        self.assertIsInstance(unread.error, kvorum.UnavailableError)
        self.assertEqual(len(other.requests), 0)

    def test_a_batch_of_gets_is_a_read(self: Any) -> None:
        whole = lines([{"status": 200, "version": "5", "value": "v"}])
        node, other = self.fake(None), self.fake(whole)
        self.assertEqual(self.client(node, other).batch([kvorum.Get("a")])[0].value, b"v")

    def test_a_scan_goes_on_behind_its_last_key(self: Any) -> None:
        entities: List[Dict[str, object]] = [{"key": key, "value": "v", "version": "1"} for key in "abc"]
        node = self.fake(lines(entities[:2], is_whole=False), closes=True)
        other = self.fake(lines(entities[2:]))
        keys = [entity.key for entity in self.client(node, other).scan(limit=3)]
        self.assertEqual(keys, [b"a", b"b", b"c"])
        self.assertIn("start=b%00", other.requests[0])
        self.assertIn("limit=1", other.requests[0])

    def test_a_scan_with_another_count_is_an_error(self: Any) -> None:
        node = self.fake(lines([{"key": "a", "value": "v", "version": "1"}], sent=2))
        with self.assertRaises(kvorum.KvorumError):
            list(self.client(node).scan())

    def test_a_scan_that_always_breaks_ends(self: Any) -> None:
        node = self.fake(*[lines([], is_whole=False)] * 9, closes=True)
        with self.assertRaises(kvorum.UnavailableError):
            list(self.client(node, rounds=3).scan())

    def test_a_token_of_a_file_and_a_trace(self: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "token"
            file.write_text("one\n")
            node = self.fake(OK, OK)
            client = self.client(node, token_file=str(file), traceparent=lambda: "00-aa-bb-01")
            client.put("k", "v")
            file.write_text("two\n")
            os.utime(file, ns=(1, 1))
            client.put("k", "v", traceparent="00-cc-dd-01")
        self.assertIn("Authorization: Bearer one\r\ntraceparent: 00-aa-bb-01", _ordered(node.requests[0]))
        self.assertIn("Authorization: Bearer two\r\ntraceparent: 00-cc-dd-01", _ordered(node.requests[1]))

    def test_wrong_arguments(self: Any) -> None:
        client = self.client(closed_port())
        for call in (
            lambda: client.get(""),
            lambda: client.get("k" * 4097),
            lambda: client.put("k", "v", ttl=0),
            lambda: client.put("k", "v", if_absent=True, if_match="*"),
            lambda: list(client.scan(prefix="a", start="b")),
            lambda: list(client.scan(scope="all")),
            lambda: client.put("k", "v", traceparent="a\r\nb: c"),
            lambda: client.put("k", "v", if_match='"\r\n'),
            lambda: client.batch([kvorum.Put("k", "v" * (17 << 20))]),
        ):
            self.assertRaises(ValueError, call)
        self.assertRaises(ValueError, self.client)
        self.assertRaises(ValueError, self.client, "ftp://a")


def _ordered(request: str) -> str:
    wanted = ("authorization:", "traceparent:")
    return "\r\n".join(sorted(line for line in request.splitlines() if line.lower().startswith(wanted)))


class ClientFakesTest(FakesTest, unittest.TestCase):
    make = kvorum.Client


class AsyncClientFakesTest(FakesTest, unittest.TestCase):
    make = Blocking


class PauseTest(unittest.TestCase):
    def test_it_doubles_and_heeds_retry_after(self) -> None:
        broken = AttemptError("a", "x", Outcome.UNKNOWN)
        busy = AttemptError("b", "x", Outcome.NOT_APPLIED, status=503, skip=1.0)
        for number in range(20):
            self.assertLessEqual(0.5 * min(0.1 * 2**number, 2), pause(number, [broken]))
            self.assertLessEqual(pause(number, [broken]), min(0.1 * 2**number, 2))
        self.assertEqual(pause(0, [busy]), 1.0)
        self.assertLess(pause(0, [busy, broken]), 1.0)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Tests of what the benchmarks make of text that they read.

    python3 bench/tests.py
"""

import contextlib
import io
import pathlib
import socket
import sys
import tempfile
import types
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "others"))
import harness
import requests
import ycsb

MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
tmpfs /data tmpfs rw 0 0
/dev/vdb /data xfs rw 0 0
"""

YCSB = """\
[OVERALL], RunTime(ms), 2000
[OVERALL], Throughput(ops/sec), 51.5
[READ], Operations, 60
[READ], AverageLatency(us), 1500.0
[READ], 99thPercentileLatency(us), 9000
[READ], Return=OK, 60
[READ], Return=NOT_FOUND, 2
[UPDATE], Operations, 20
[UPDATE], AverageLatency(us), 2500.0
[UPDATE], 99thPercentileLatency(us), 12000
[UPDATE], Return=OK, 20
[UPDATE], Return=504, 1
[READ-MODIFY-WRITE], Operations, 20
[READ-MODIFY-WRITE], AverageLatency(us), 4000.0
[READ-MODIFY-WRITE], 99thPercentileLatency(us), 20000
[READ-FAILED], Operations, 2
"""


class Machine(unittest.TestCase):
    def test_steal_is_the_eighth_figure_and_guests_are_no_ticks_of_their_own(self):
        for text, ticks in (
            ("cpu  10 1 5 70 2 0 2 10 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n", (10, 100)),
            ("cpu  10 1 5 84\n", (0, 100)),
        ):
            self.assertEqual(harness.machine_ticks(text), ticks)

    def test_steal_is_told_once_for_the_time_since_it_was_told(self):
        steal = harness.Steal()
        steal.before = (100, 1000)
        self.assertEqual(steal.share((150, 2000)), 0.05)
        self.assertIsNone(steal.share((150, 2000 + harness.TICKS - 1)))
        # What was not told is told with the next.
        self.assertEqual(steal.share((400, 3000)), 0.25)

    def test_the_nearest_and_latest_mount_counts(self):
        for folder, kind in (("/tmp/a", "ext4"), ("/dev/shm/a", "tmpfs"), ("/data", "xfs"), ("/database", "ext4")):
            self.assertEqual(harness.file_system(pathlib.Path(folder), MOUNTS), kind)
        self.assertEqual(harness.file_system(pathlib.Path("/tmp"), ""), "unknown")

    def test_data_in_memory_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder).resolve()
            self.assertIsNone(harness.in_memory(place, "/dev/vda / ext4 rw 0 0\n"))
            self.assertIn("TMPDIR", harness.in_memory(place, f"/dev/vda / ext4 rw 0 0\ntmpfs {place} tmpfs rw 0 0\n"))


class Builds(unittest.TestCase):
    def test_a_case_runs_with_each_build_in_turn_on_new_folders_and_the_second_is_told_beside_the_first(self):
        arguments = types.SimpleNamespace(kvorum="own", beside="other")
        seen = []

        def case():
            folder = harness.WORK / "data"
            folder.mkdir()
            seen.append(arguments.kvorum)
            harness.figure("cost", {"own": 3, "other": 2}[arguments.kvorum], "us")

        with contextlib.redirect_stdout(io.StringIO()) as printed:
            harness.in_turn(arguments, case)
        self.assertEqual((seen, arguments.kvorum), (["own", "other"], "own"))
        self.assertRegex(printed.getvalue(), r"(?s)cost +3\.00  us.*  cost: 1\.500 times that of the other build\nbeside: cost +2\.00  us")


class Answers(unittest.TestCase):
    def test_a_status_is_read_and_nothing_of_what_follows(self):
        for sent, status in ((b"HTTP/1.1 201 Created\r\n", 201), (b"HTTP/1.1 503 Service", 503), (b"HTTP/1", 0), (b"", 0)):
            node, client = socket.socketpair()
            with node, client:
                node.sendall(sent)
                node.shutdown(socket.SHUT_WR)
                self.assertEqual(requests.status_of(client), status)
                self.assertEqual(client.recv(100), sent[12:])

    def test_a_run_of_ycsb_has_its_failures_by_status_and_counts_what_succeeded(self):
        run = ycsb.reported(YCSB)
        self.assertEqual(run["failed"], {"read NOT_FOUND": 2, "update 504": 1})
        # Twenty of the reads and all updates are parts of a read-modify-write.
        self.assertEqual((run["operations"], run["rate"]), (60, 30))
        self.assertEqual(run["p99"], {"read": 9, "update": 12, "read-modify-write": 20})

    def test_the_last_line_that_a_program_has_said(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            self.assertEqual(harness.last_line(pathlib.Path(file.name)), "it said nothing")
            file.write("first\n  no port is free \n\n")
            file.flush()
            self.assertEqual(harness.last_line(pathlib.Path(file.name)), "no port is free")


unittest.main()

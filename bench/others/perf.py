"""Counts system calls and context switches of processes and samples their code, with perf.

A run continues without these figures if perf is missing or not permitted.
"""

import re
import shutil
import subprocess

# The length of a run: one second of counting, one of sampling, and time for perf to start.
SECONDS = 4
COUNTED = {"raw_syscalls:sys_enter": "system calls", "context-switches": "switches"}
# A symbol belongs to the first part that matches it. Inlined code belongs to the part of its caller.
PARTS = (
    ("HTTP", r"hyper|httparse|http_body|server::(http|net|trust)|http::"),
    ("peers and coordination", r"peer::|node::(peers|coordinator|replica|hints|timestamps)|cluster::"),
    ("engine", r"lsm::|quick_cache|xxh|crc32|lz4"),
    ("scheduling", r"tokio|mio::|std::thread|parking|futures|park"),
    ("memory", r"mi_|malloc|free|memcpy|memmove|memset|memcmp|alloc|bytes::|smallvec|triomphe"),
)


def available():
    """Whether perf is installed and permitted."""
    command = ["perf", "stat", "-e", ",".join(COUNTED), "true"]
    return bool(shutil.which("perf")) and subprocess.run(command, capture_output=True).returncode == 0


def count(pids):
    """The number of each event within a second, over all processes."""
    command = ["perf", "stat", "-x", ";", "-e", ",".join(COUNTED), "-p", ",".join(map(str, pids)), "sleep", "1"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    fields = [line.split(";") for line in text.splitlines() if ";" in line]
    counts = {COUNTED[name]: float(count) for count, _, name, *_ in fields if name in COUNTED and count.isdigit()}
    return counts


def sample(pids, file):
    """The shares of CPU time, over all processes: in the kernel, and in the parts of the program."""
    record = ["perf", "record", "-q", "-F", "999", "-o", str(file), "-p", ",".join(map(str, pids)), "sleep", "1"]
    subprocess.run(record, capture_output=True, check=True)
    report = ["perf", "report", "-i", str(file), "--stdio", "--no-children", "-F", "overhead,sym", "-t", ";"]
    text = subprocess.run(report, capture_output=True, text=True, check=True).stdout
    return shares(text)


def shares(report):
    found = {}
    for line in report.splitlines():
        if match := re.match(r"\s*([\d.]+)%\s*;\[(.)\] (.*)", line):
            share, space, symbol = match.groups()
            part = "kernel" if space == "k" else next((part for part, pattern in PARTS if re.search(pattern, symbol)), "other")
            found[part] = found.get(part, 0) + float(share) / 100
    return found

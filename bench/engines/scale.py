#!/usr/bin/env python3
"""What the engine's operations cost in a store of many tables, beside one of few.

    cargo build --release -p lsm --example scale
    python3 bench/engines/scale.py [--scale target/release/examples/scale] [--tables 32000] [--few 100] [--kilobytes 64]

A store of a terabyte has some ten thousand tables. One of as many small tables has the same shape. Both stores have all
their tables on the last level. Before the open the files are taken out of the system's memory. `pick` is the pick of a
compaction that is not due, `edit` an edit of the manifest that changes nothing, with its sync.
"""

import os
import pathlib
import resource
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import WORK, Parser, at_most, figure, print_summary

SPARE_DESCRIPTORS = 200


def evict(folder):
    """Takes the files of a folder out of the system's memory."""
    os.sync()
    for entry in os.scandir(folder):
        descriptor = os.open(entry.path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def run(program, *words):
    told = subprocess.run([program, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: float(value) for name, value in map(str.split, told.splitlines())}


def store(arguments, tables):
    """The figures of a store of that many tables."""
    folder = WORK / f"store-{tables}"
    run(arguments.scale, "fill", folder, tables, arguments.kilobytes)
    evict(folder)
    found = run(arguments.scale, "measure", folder)
    print(f"  {found['tables']:.0f} tables: " + ", ".join(f"{name} {value:.6g}" for name, value in found.items()), flush=True)
    return found


def main():
    parser = Parser(__doc__)
    parser.add_argument("--scale", default="target/release/examples/scale", help="the example `scale` of the crate `lsm`")
    parser.add_argument("--tables", type=int, default=32_000, help="the tables of the larger store (32000)")
    parser.add_argument("--few", type=int, default=100, help="the tables of the smaller store (100)")
    parser.add_argument("--kilobytes", type=int, default=64, help="the size of a table (64)")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most != resource.RLIM_INFINITY and arguments.tables + SPARE_DESCRIPTORS > most:
        arguments.tables = most - SPARE_DESCRIPTORS
        print(f"  a process may open {most} files, so there are {arguments.tables} tables", flush=True)
    few, many = store(arguments, arguments.few), store(arguments, arguments.tables)
    figure("scale-open", many["open"], "s, cold", at_most(2))
    for name, goal in (("get", None), ("scan", at_most(2))):
        figure(f"scale-{name}", many[name] * 1e6, "us")
        figure(f"scale-{name}-ratio", many[name] / few[name], f"times that of {few['tables']:.0f} tables", goal)
    figure("scale-pick", many["pick"] * 1e3, "ms")
    figure("scale-edit", many["edit"] * 1e3, "ms, with its sync")
    figure("scale-edit-more", (many["edit"] - few["edit"]) * 1e3, "ms more than with few", at_most(1))
    figure("scale-memory", (many["resident"] - few["resident"]) / (many["tables"] - few["tables"]) / 1024, "KiB a table")
    figure("scale-descriptors", many["descriptors"], "open files", decimals=0)
    print_summary()


if __name__ == "__main__":
    main()

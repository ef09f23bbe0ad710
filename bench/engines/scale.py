#!/usr/bin/env python3
"""What the engine's operations cost in a store of many tables, beside stores of few and some.

    cargo build --release -p lsm --example scale
    python3 bench/engines/scale.py [--scale target/release/examples/scale] [--tables 100 2000 32000] [--kilobytes 16] [--open-files 1024]

A store of a terabyte has some ten thousand tables. One of as many small tables has the same shape. All stores have all
their tables on the last level. Before the open the files are taken out of the system's memory.

The first store is the one with which the others are compared. `pick` is the pick of a compaction that is not due. `edit` is
an edit of the manifest that changes nothing, with its sync and without; `ingest` puts a table into the level, without any
sync. `look-at-all` looks at each table, as the progress of a repair does. `drop` takes from the flush of 1,000 deletes until nothing is left of them and of what they have deleted. `writing`
says that another thread writes, flushes and compacts at full speed meanwhile.
"""

import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import WORK, Parser, at_most, figure, print_summary


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
    found = run(arguments.scale, "measure", folder, arguments.open_files)
    shutil.rmtree(folder)
    print(f"  {found['tables']:.0f} tables: " + ", ".join(f"{name} {value:.6g}" for name, value in found.items()), flush=True)
    return found


def main():
    parser = Parser(__doc__)
    parser.add_argument("--scale", default="target/release/examples/scale", help="the example `scale` of the crate `lsm`")
    parser.add_argument("--tables", type=int, nargs="+", default=[100, 2000, 32_000], help="the tables of each store (100 2000 32000)")
    parser.add_argument("--kilobytes", type=int, default=16, help="the size of a table (16)")
    parser.add_argument("--open-files", type=int, default=1024, help="how many of them are open at the same time (1024)")
    arguments = parser.parse_args()
    few, *others = [store(arguments, tables) for tables in arguments.tables]
    for many in others or [few]:
        of = f"scale-{many['tables']:.0f}"
        figure(f"{of}-open", many["open"], "s, cold", at_most(2))
        for name, goal in (("get", None), ("scan", at_most(2)), ("get_writing", None), ("scan_writing", None), ("drop", None)):
            unit, factor = ("ms", 1e3) if name == "drop" else ("us", 1e6)
            name, value, before = name.replace("_", "-"), many[name], few[name]
            figure(f"{of}-{name}", value * factor, unit)
            figure(f"{of}-{name}-ratio", value / before, f"times that of {few['tables']:.0f} tables", goal)
        figure(f"{of}-pick", many["pick"] * 1e3, "ms")
        for name in ("statistics", "look_at_all"):
            figure(f"{of}-{name.replace('_', '-')}", many[name] * 1e6, "us")
        figure(f"{of}-edit", many["edit"] * 1e3, "ms, with its sync")
        figure(f"{of}-edit-unsynced", many["edit_unsynced"] * 1e3, "ms, without its sync", at_most(1))
        figure(f"{of}-ingest-more", (many["ingest_unsynced"] - few["ingest_unsynced"]) * 1e3, "ms more than with few, without syncs", at_most(1))
        if many is not few:
            more = {name: many[name] - few[name] for name in ("resident", "cached", "tables")}
            figure(f"{of}-memory", (more["resident"] - more["cached"]) / more["tables"] / 1024, "KiB a table, without the cache")
        figure(f"{of}-cached", many["cached"] / 2**20, "MiB of blocks, indexes and filters")
        figure(f"{of}-descriptors", many["descriptors"], "open files", decimals=0)
    print_summary()


if __name__ == "__main__":
    main()

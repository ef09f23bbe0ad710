#!/usr/bin/env python3
"""Builds `kvorum` with the compiler's knowledge of which code runs often (profile-guided optimization).

    rustup component add llvm-tools
    cargo build --profile dist -p lab-cli
    python3 bench/profile_guided.py [--target DIR]

Builds the program twice, which takes as long as two runs of `cargo build --profile dist`: first
one that counts, to which loads of one node and of three are sent, then `DIR/kvorum`
(target/profile-guided/kvorum), which is laid out by those counts.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from harness import Cluster, Parser, kvorum, load

# Long enough for memtables to be flushed and tables to be merged.
SECONDS = 6
RATE = 20_000
# Scans and mixed loads ask for more at a time.
YCSB_RATE = 1_000
OPTIONS = ("--memory", "128MiB", "--threads", "2")


def compiler(*words):
    """What the compiler says of itself."""
    return subprocess.run(["rustc", *words], capture_output=True, text=True, check=True).stdout.strip()


def profdata(host):
    """LLVM's program that sums up counts, of the compiler's own version."""
    program = pathlib.Path(compiler("--print", "sysroot")) / "lib/rustlib" / host / "bin/llvm-profdata"
    if not program.exists():
        sys.exit(f"{program} is missing: run `rustup component add llvm-tools`")
    return program


def build(host, target, flag):
    """A release build with one more flag of the compiler. Returns the program."""
    print(f"building with {flag}", flush=True)
    # With a host that is named, the flag is not meant for what runs during the build.
    command = ["cargo", "build", "--profile", "dist", "--package", "kvorum", "--target", host, "--target-dir", str(target)]
    flags = f"{os.environ.get('RUSTFLAGS', '')} -C{flag}"
    subprocess.run(command, env={**os.environ, "RUSTFLAGS": flags}, check=True)
    return target / host / "dist/kvorum"


def send_loads(server):
    """Fills a store, and then sends it what clients send most."""
    load(server.ports, "fill", "--keys", 100_000)
    for workload in ("put", "get", "ycsb-a", "ycsb-e"):
        rate = RATE if workload in ("put", "get") else YCSB_RATE
        run = load(server.ports, workload, "--rate", rate, "--duration", f"{SECONDS}s", "--keys", 100_000)
        print(f"  {workload}: {run['succeeded']} requests", flush=True)
        assert run["succeeded"], run
    server.stop()


def main():
    parser = Parser(__doc__)
    parser.add_argument("--target", type=pathlib.Path, default=pathlib.Path("target/profile-guided"))
    target = parser.parse_args().target.absolute()
    host = compiler("--print", "host-tuple")
    program, counts, profile = profdata(host), target / "counts", target / "kvorum.profdata"
    shutil.rmtree(counts, ignore_errors=True)
    counting = build(host, target / "counting", f"profile-generate={counts}")
    for durability in ("os", "sync"):
        send_loads(kvorum(counting, f"one-{durability}", "--durability", durability, *OPTIONS))
    send_loads(Cluster(counting, "three", 3, "--durability", "sync", *OPTIONS))
    subprocess.run([program, "merge", "--output", profile, counts], check=True)
    built = build(host, target, f"profile-use={profile}")
    (target / "kvorum").unlink(missing_ok=True)
    os.link(built, target / "kvorum")


if __name__ == "__main__":
    main()

"""The page that `peers.py` writes: tables, bars, and prose.

Whatever it says about figures is computed from them. One store is called
better than another where all its rounds are: ranges that overlap are told to
be no different.
"""

import json
import statistics

import bars
from harness import CONNECTIONS, KEYS

FIGURES = ("rate", "cpu_us", "kernel_us", "generator_us", "p50", "p99", "p999", "max", "resident_mib", "errors")
# What Kvorum is compared in, and whether more of it is better.
COMPARED = {"cpu_us": ("CPU a request", False), "rate": ("requests/s", True), "p99": ("p99", False), "p999": ("p99.9", False)}

GROUPS = {
    "put-1-synced": ("Writes: one copy, synced before the answer",
        "Each has called `fdatasync` or `fsync` for a write before it answers. All of them let writes that come together share a sync: "
        "Kvorum in its commit thread, Redis once a turn of its loop, etcd once a batch of its Raft log."),
    "put-1-second": ("Writes: one copy, synced about each second",
        "Both answer before the sync; a power cut may cost what the last second or two brought."),
    "put-1-system": ("Writes: one copy, no sync asked for",
        "Kvorum (`os`) has each write in its log, in the page cache, before it answers: it outlives a kill of the process. "
        "Redis without an append-only file and memcached have it in memory only, and lose all when they stop: they do less."),
    "put-3-synced": ("Writes: three copies, two synced before the answer",
        "Kvorum answers when two of three nodes have synced the write. etcd and NATS do the same by Raft. Redis has synced it on the primary, and one "
        "replica has taken it: `WAIT` does not promise that the replica has synced (that is `WAITAOF`, from Redis 7.2 on)."),
    "put-3-second": ("Writes: three copies, two have it, synced about each second",
        "As above, with syncs behind the answers."),
    "put-3-system": ("Writes: three copies, two have it, synced when the system likes",
        "Kvorum (`os`) and NATS as it comes, which syncs every two minutes: the write is in the page cache of two nodes when it is answered."),
    "get-1": ("Reads: one copy", "Of keys that are all there, in memory."),
    "get-3-fresh": ("Reads: three copies, with what was acknowledged in it",
        "`GET` 2/3 sees every write that was acknowledged with 2/3, asking two nodes; a linearizable read of etcd asks the leader to make sure that it still "
        "is one. Redis' primary answers alone, which is right as long as no other has been made primary meanwhile."),
    "get-3-any": ("Reads: three copies, of whichever was asked", "All of these may miss the latest writes. NATS: direct gets, as its client does them."),
}  # fmt: skip

PROMISES = """\
| store | protocol | what its three copies are |
|---|---|---|
| Kvorum | HTTP/1.1 | each request goes to any node, which asks the key's replicas; the last write wins, conditional writes there are none |
| Redis | its own, text | a primary that copies to replicas behind its answers; `WAIT` holds the answer back. A failover may lose what was acknowledged |
| memcached | its own, text | none: one copy |
| etcd | gRPC over HTTP/2 | Raft: all writes in one order, linearizable, conditional; each kept as a revision, for watches. It does more for a write |
| NATS | its own, text | JetStream: a key-value bucket is a Raft group of its own, here with all keys in it; conditional writes. It does more for a write |
"""

# Why it costs more than another, where it does. What can be counted follows each.
REASONS = {
    "Redis": "Redis parses a length-prefixed line where Kvorum parses an HTTP head and writes one, and does everything for a request on one thread, "
    "in one hash table in memory: no hand-over between the thread that reads sockets and the one that writes the log, no versions, no tables on disk.",
    "memcached": "memcached parses a short line, changes a hash table in memory and answers: no log, no versions, no tables on disk.",
    "etcd": "etcd sends all writes through one leader, which batches those of all clients; Kvorum's nodes each coordinate their own clients' requests.",
    "NATS": "NATS sends all writes through one leader, which batches those of all clients; Kvorum's nodes each coordinate their own clients' requests.",
}
REPLICATED = (
    "Three nodes cost more than one because each request is one over HTTP from the client and one to each other replica over a link of its own, "
    "with its frames and its wake-ups."
)


def write(page, results):
    """Writes the page, and its samples and plots to the folder of its name beside it."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    samples = ",\n".join(json.dumps(sample) for sample in results["samples"])
    rest = {name: value for name, value in results.items() if name != "samples"}
    (folder / "samples.json").write_text(json.dumps(rest, indent=1)[:-2] + ',\n "samples": [\n' + samples + "\n]}\n")
    rows = rows_of(results["samples"])
    parts = [head(results), summary(rows), machine(results), method(results, rows)]
    for group, (title, words) in GROUPS.items():
        if members := [row for row in rows if row["group"] == group]:
            (folder / f"{group}.svg").write_text(plot(title, members))
            parts.append(f"## {title}\n\n{words}\n\n{table(members)}\n![{title}]({folder.name}/{group}.svg)\n\n{compared(members)}")
    parts += [copies(rows), worse(rows, results["profiles"]), evidence(results["profiles"]), left_out(results)]
    page.write_text("\n".join(part for part in parts if part))


def rows_of(samples):
    """One row a case: the median of each figure, and its range over the rounds."""
    cases = {}
    for sample in samples:
        cases.setdefault((sample["group"], sample["store"], sample["label"], sample["method"], sample["generator"]), []).append(sample)
    rows = []
    for (group, store, label, method, generator), rounds in cases.items():
        row = {"group": group, "store": store, "label": label, "method": method, "generator": generator}
        for figure in FIGURES:
            values = [sample[figure] for sample in rounds]
            row[figure] = statistics.median(values)
            row[f"{figure}_range"] = (min(values), max(values))
        rows.append(row)
    # Each group begins with Kvorum; the others stay in the order in which they were asked.
    return sorted(rows, key=lambda row: row["store"] != "Kvorum")


def name(row):
    return f"{row['store']}, {row['label']}"


def amount(value):
    """Three digits that count, with a comma in thousands."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def copies(rows):
    """What a write to three copies costs beside one to one copy, for each store that has both alike."""
    lines = []
    for kind, words in (("synced", "synced before the answer"), ("second", "synced about each second"), ("system", "no sync asked for")):
        one, three = f"put-1-{kind}", f"put-3-{kind}"
        for single in (row for row in rows if row["group"] == one):
            for replicated in (row for row in rows if row["group"] == three and row["store"] == single["store"]):
                ratio = replicated["cpu_us"] / single["cpu_us"]
                lines.append(f"| {single['store']} | {words} | {amount(single['cpu_us'])} | {amount(replicated['cpu_us'])} | {ratio:.2f} |")
    if not lines:
        return ""
    return (
        "## What three copies cost\n\nCPU us a write.\n\n| store | durability | one copy | three, two acknowledged | ratio |\n|---|---|--:|--:|--:|\n"
        + "\n".join(lines)
        + "\n"
    )


def table(rows):
    lines = [
        "| store | requests/s | p50 ms | p99 ms | p99.9 ms | CPU us a request | of it kernel | memory MiB | generator, its CPU us |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cells = [amount(row[figure]) for figure in ("rate", "p50", "p99", "p999")]
        cells += [f"**{amount(row['cpu_us'])}**", amount(row["kernel_us"]), f"{row['resident_mib']:.0f}", f"`{row['generator']}` {row['generator_us']:.1f}"]
        shown = f"**{name(row)}**" if row["store"] == "Kvorum" else name(row)
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def plot(title, rows):
    plain = [name(row).replace("`", "") for row in rows]
    ours = {number for number, row in enumerate(rows) if row["store"] == "Kvorum"}
    cpu = bars.Panel(
        "CPU us a request", [row["cpu_us"] for row in rows], [amount(row["cpu_us"]) for row in rows],
        [row["kernel_us"] for row in rows], "all its processes; pale: in the kernel; less is better",
    )  # fmt: skip
    rate = bars.Panel("requests/s", [row["rate"] for row in rows], [amount(row["rate"]) for row in rows], note="more is better")
    tail = bars.Panel("p99 ms", [row["p99"] for row in rows], [amount(row["p99"]) for row in rows], note="less is better")
    return bars.svg(title, plain, ours, [cpu, rate, tail])


def verdict(ours, theirs, figure):
    """`better`, `worse` or `alike`, for Kvorum; alike where the rounds' ranges overlap."""
    (our_low, our_high), (their_low, their_high) = ours[f"{figure}_range"], theirs[f"{figure}_range"]
    if our_low <= their_high and their_low <= our_high:
        return "alike"
    return "better" if (ours[figure] > theirs[figure]) == COMPARED[figure][1] else "worse"


def pairs(rows):
    """Kvorum's row of each group with each other store's."""
    for group in GROUPS:
        members = [row for row in rows if row["group"] == group]
        for ours in (row for row in members if row["store"] == "Kvorum"):
            yield from ((ours, theirs) for theirs in members if theirs["store"] != "Kvorum")


def summary(rows):
    """Every pair, as ratios."""
    lines = ["| group | Kvorum | beside | " + " | ".join(words for words, _ in COMPARED.values()) + " |", "|---|---|---|" + "--:|" * len(COMPARED)]
    count = {"better": 0, "worse": 0, "alike": 0}
    for ours, theirs in pairs(rows):
        cells = []
        for figure in COMPARED:
            found = verdict(ours, theirs, figure)
            ratio = f"{ours[figure] / theirs[figure]:.2f}"
            cells.append({"worse": f"**{ratio}**", "alike": f"{ratio} ~", "better": ratio}[found])
            count[found] += 1
        lines.append(f"| {GROUPS[ours['group']][0]} | {ours['label']} | {name(theirs)} | {' | '.join(cells)} |")
    if len(lines) == 2:
        return ""
    return (
        "## In short\n\nKvorum's figure over the other's. **Bold**: Kvorum is worse, in every round. `~`: the rounds of the two overlap, so no difference was "
        f"shown. Of {sum(count.values())} ratios {count['better']} are better, {count['worse']} worse and {count['alike']} not told apart.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def head(results):
    versions = ", ".join(f"{store} {version}" for store, version in results["versions"].items())
    return (
        "# Beside other stores\n\n"
        "What does a request cost in Kvorum, over HTTP, and what in stores that speak protocols of their own, when each promises the same?\n\n"
        f"`{results['command']}` wrote this page, its plots and its [samples](peers/samples.json), begun {results['began']}. {versions}.\n"
    )


def machine(results):
    found = results["machine"]
    kind = "virtual machine" if found["virtual"] else "machine"
    sync = found["sync"]
    memory_only = " **That is memory, so the syncs below cost nothing here.**" if found["file_system"] in ("tmpfs", "ramfs") else ""
    return (
        f"## The machine\n\n{found['cores']} cores of {found['processor']}, {kind}, {found['memory_gib']:.0f} GiB, Linux {found['kernel']}; "
        f"data on {found['file_system']}.{memory_only} A sync of 4 KiB on the idle disk takes {sync['p50']:.2f} ms in the median, {sync['p99']:.2f} ms at p99. "
        f"The host took {found['stolen']:.1%} of the cores during the run. Generator, servers and replicas share the cores.\n"
    )


def method(results, rows):
    floor = next((row for row in rows if row["group"] == "floor"), None)
    told = (
        f"The floor: nginx with `return 201` over the same connections took {amount(floor['cpu_us'])} us of CPU a request, {amount(floor['rate'])} requests/s, "
        f"p99 {amount(floor['p99'])} ms."
        if floor
        else ""
    )
    widest = max(rows, key=lambda row: spread(row))
    return (
        f"""## The method

{CONNECTIONS} connections, each with one request under way (closed loop); {KEYS:,} keys of 16 bytes, chosen at random; values of 64 random bytes. Reads are of keys that were all put first. Each round starts each store afresh, in turn, and measures each case for {results['seconds']:g} s after half a second of warm-up; {results['rounds']} rounds, every other one in reverse; the tables have medians.

The figure to look at is the CPU time, user and system, that all processes of a store together used while they answered, over the answers: it holds on a machine whose cores the generator shares. Requests/s and latency are those of a machine that is saturated by servers and generator together, so a generator that costs more leaves its store less; what it took a request is the last column. `wire` asks HTTP, Redis and memcached by epoll on one thread (`bench/peers/wire`); etcd and NATS are asked with their own Go clients, a connection each. Where a cluster has no primary, connections go to all its nodes in turn.

Settings are the stores' own except for what the labels say, save that Kvorum's three nodes have `--memory 512MiB --threads 1` each, as `kvorum dev` gives them, and that Redis makes no snapshots (`save ""`). etcd and NATS have a Go thread for each core on each node. Memory is what the processes hold at the end of a run.

{PROMISES}
{told} Rounds differ: the CPU a request of `{name(widest).replace('`', '')}` ({GROUPS.get(widest['group'], ('floor',))[0].lower()}) most, by {spread(widest):.0%} of its median.
"""
    )


def spread(row):
    low, high = row["cpu_us_range"]
    return (high - low) / row["cpu_us"]


def compared(members):
    """A sentence for each other store of the group."""
    lines = []
    for ours, theirs in pairs(members):
        words = []
        for figure, (what, _) in COMPARED.items():
            found, ratio = verdict(ours, theirs, figure), ours[figure] / theirs[figure]
            words.append(f"{what} no different" if found == "alike" else f"{ratio:.2f} times its {what}, {found}")
        lines.append(f"- Kvorum, {ours['label']}, beside {name(theirs)}: {'; '.join(words)}.")
    return "\n".join(lines) + ("\n" if lines else "")


def worse(rows, profiles):
    """Where Kvorum is worse, and why."""
    if not any(pairs(rows)):
        return ""
    lines = []
    for ours, theirs in pairs(rows):
        figures = [what for figure, (what, _) in COMPARED.items() if verdict(ours, theirs, figure) == "worse"]
        if figures:
            lines.append(f"- **{GROUPS[ours['group']][0]}**, {ours['label']} beside {name(theirs)}: {', '.join(figures)}. {because(ours, theirs, profiles)}")
    if not lines:
        return "## Where Kvorum is worse\n\nIn no figure in every round of this run.\n"
    reasons = [REASONS[store] for store in REASONS if any(theirs["store"] == store and more(ours, theirs) for ours, theirs in pairs(rows))]
    if any(ours["group"].startswith(("put-3", "get-3")) and more(ours, theirs) for ours, theirs in pairs(rows)):
        reasons.append(REPLICATED)
    return "## Where Kvorum is worse\n\n" + "\n\n".join([*reasons, "\n".join(lines)]) + "\n"


def more(ours, theirs):
    return verdict(ours, theirs, "cpu_us") == "worse"


def because(ours, theirs, profiles):
    """What was counted of the difference in CPU."""
    if not more(ours, theirs):
        return "Not by its CPU a request, which is " + (
            "less" if verdict(ours, theirs, "cpu_us") == "better" else "no different") + "; this run does not show by what."
    user, kernel = (theirs["cpu_us"] - theirs["kernel_us"], theirs["kernel_us"])
    told = (
        f"Of {amount(ours['cpu_us'])} us, {amount(ours['kernel_us'])} are in the kernel ({amount(kernel)} of {theirs['store']}'s) "
        f"and {amount(ours['cpu_us'] - ours['kernel_us'])} in the program ({amount(user)})."
    )
    ours_profile, theirs_profile = (profile_of(row, profiles) for row in (ours, theirs))
    if ours_profile and theirs_profile:
        counted = [
            f"{amount(ours_profile['counts'][what])} {what} a request ({amount(theirs_profile['counts'][what])})"
            for what in ours_profile["counts"]
            if what in theirs_profile["counts"]
        ]
        told += f" {' and '.join(counted)}." if counted else ""
    if ours_profile:
        program = sorted(((share, part) for part, share in ours_profile["shares"].items() if part != "kernel"), reverse=True)
        spent = ", ".join(f"{part} {amount(share * ours['cpu_us'])} us" for share, part in program)
        told += f" By the samples Kvorum's program spends its time so: {spent}."
    return told


def profile_of(row, profiles):
    return next((found for found in profiles if all(found[key] == row[key] for key in ("group", "store", "label"))), None)


def evidence(profiles):
    """What perf saw."""
    if not profiles:
        return ""
    counts = list(dict.fromkeys(what for profile in profiles for what in profile["counts"]))
    parts = {"kernel", *(part for profile in profiles if profile["store"] == "Kvorum" for part in profile["shares"])}
    parts = sorted(parts, key=lambda part: (part != "kernel", part == "other", part))
    lines = [f"| store | {' | '.join(what + ' a request' for what in counts)} | {' | '.join(parts)} |", "|---|" + "--:|" * (len(counts) + len(parts))]
    for profile in profiles:
        cells = [amount(profile["counts"][what]) if what in profile["counts"] else "" for what in counts]
        # The parts are told by names of Kvorum's modules and crates.
        known = parts if profile["store"] == "Kvorum" else ["kernel"]
        cells += [f"{profile['shares'].get(part, 0):.0%}" if part in known else "" for part in parts]
        lines.append(f"| {profile['method'].upper()}: {name(profile)} | {' | '.join(cells)} |")
    return (
        "## What the processes do for a request\n\n"
        "One more run of each, in the first round, while perf counts for a second (all threads of all processes of the store) and samples for another. "
        "The shares are of CPU time; those in the program are told by the names of functions, so what the compiler has inlined counts for its caller.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def left_out(results):
    lines = [f"- {store}: not installed; {how}." for store, how in results["left_out"].items()]
    lines += [f"- `{deployment}`: failed ({why})." for deployment, why in results["failed"].items()]
    errors = [f"- {sample['store']}, {sample['label']}: {sample['errors']} requests of round {sample['round'] + 1}." for sample in results["samples"] if sample["errors"]]
    told = "## Left out\n\n" + "\n".join(lines) + "\n" if lines else ""
    return told + ("\n## Requests that failed\n\n" + "\n".join(errors) + "\n" if errors else "")

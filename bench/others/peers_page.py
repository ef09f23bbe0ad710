"""The page that `peers.py` writes: tables, bar plots and text.

All statements about figures are computed from them. A store is called better
than another one only if all its rounds are; if the ranges of the rounds
overlap, the page says that there is no difference.
"""

import json
import statistics

import bars
from harness import CONNECTIONS, KEYS

FIGURES = ("rate", "cpu_us", "kernel_us", "generator_us", "p50", "p99", "p999", "max", "resident_mib", "errors")
# The compared figures, and whether a greater one is better.
COMPARED = {"cpu_us": ("CPU per request", False), "rate": ("requests/s", True), "p99": ("p99", False), "p999": ("p99.9", False)}

GROUPS = {
    "put-1-synced": ("Writes: one copy, synced before the answer",
        "Each store calls `fdatasync` or `fsync` for a write before it answers. In all of them concurrent writes share a sync: "
        "in the commit thread of Kvorum, in each iteration of Redis' event loop, in each batch of etcd's Raft log."),
    "put-1-second": ("Writes: one copy, synced about each second",
        "Both answer before the sync; a power cut may lose the writes of the last second or two."),
    "put-1-system": ("Writes: one copy, no sync requested",
        "Kvorum (`os`) has each write in its log, in the page cache, before it answers: the write survives a kill of the process. "
        "Redis without an append-only file and memcached keep it in memory only and lose everything when they stop, so they do less work."),
    "put-3-synced": ("Writes: three copies, two synced before the answer",
        "Kvorum answers when two of three nodes have synced the write. etcd and NATS do the same with Raft. Redis answers when the primary has synced the "
        "write and one replica has received it: `WAIT` does not guarantee that the replica has synced it (`WAITAOF` does, from Redis 7.2 on)."),
    "conditional-create": ("Conditional writes: three copies, two synced, each key must be new",
        "Kvorum writes with `If-None-Match: *`: a majority promises, then a majority stores the value, so it takes two rounds and two syncs. "
        "etcd writes in a transaction that compares the key's revision, which is one entry of its log, as a write is."),
    "conditional-count": (f"Counters: three copies, two synced, {KEYS:,} counters",
        "An increment reads a counter, and writes the next number if the counter is still the one that was read; otherwise it begins again. With Kvorum that "
        "is a `GET` and a `PUT` with `If-Match`, with etcd a linearizable read and a transaction that compares the revision. Clients hardly ever meet."),
    "conditional-contended": (f"One counter: three copies, two synced, {CONNECTIONS} clients",
        "The same, but all clients increment one counter, and begin again at once where another was faster. A request is an increment that took effect, "
        "however many attempts it took; what was tried in vain is in its CPU time."),
    "put-3-second": ("Writes: three copies, two have it, synced about each second",
        "As above, but the syncs follow the responses."),
    "put-3-system": ("Writes: three copies, two have it, synced when the operating system decides",
        "Kvorum (`os`), and NATS with its default, a sync every two minutes: when a write is answered, it is in the page cache of two nodes."),
    "get-1": ("Reads: one copy", "All keys exist and are in memory."),
    "get-3-fresh": ("Reads: three copies, all acknowledged writes are visible",
        "`GET` 2/3 asks two nodes and sees every write that was acknowledged with 2/3. For a linearizable read of etcd the leader checks that it is still the "
        "leader. The primary of Redis answers alone, which is correct as long as no other primary has been promoted."),
    "get-3-any": ("Reads: three copies, one is asked", "All of these reads may miss the latest writes. The client of NATS uses direct gets."),
}  # fmt: skip

# The heading of the page, and what it asks; of that of conditional writes if it has nothing else.
HEADINGS = {
    False: ("Compared with other stores",
        "How much does a request cost in Kvorum, over HTTP, and in stores with protocols of their own, if each gives the same guarantee?"),
    True: ("Conditional writes beside etcd's transactions",
        "What does a write cost that takes effect only if its key is as the client believes, in Kvorum and in etcd, and what if many clients want the same key?"),
}  # fmt: skip

PROMISES = """\
| store | protocol | how it keeps three copies |
|---|---|---|
| Kvorum | HTTP/1.1 | any node takes a request and asks the key's replicas; the last write wins; conditional writes of one key |
| Redis | its own, text | a primary copies to replicas after its responses; `WAIT` delays the response. A failover may lose acknowledged writes |
| memcached | its own, text | none: one copy |
| etcd | gRPC over HTTP/2 | Raft: all writes in one order, linearizable and conditional; each is kept as a revision for watches. It does more work for a write |
| NATS | its own, text | JetStream: a key-value bucket is a Raft group, here with all keys in one bucket; conditional writes. It does more work for a write |
"""

# Why Kvorum costs more than another store, if it does. Counted figures follow each reason.
REASONS = {
    "Redis": "Redis parses length-prefixed lines, while Kvorum parses and writes HTTP heads. Redis also handles a request on one thread with one hash table in "
    "memory: no hand-over between the thread that reads sockets and the one that writes the log, no versions, no tables on disk.",
    "memcached": "memcached parses a short line and updates a hash table in memory: no log, no versions, no tables on disk.",
    "etcd": "etcd sends all writes through one leader, which batches the writes of all clients; each node of Kvorum coordinates the requests of its own clients.",
    "NATS": "NATS sends all writes through one leader, which batches the writes of all clients; each node of Kvorum coordinates the requests of its own clients.",
}
REPLICATED = (
    "Three nodes cost more than one because each request consists of an HTTP request of the client and a request to each other replica over a link, "
    "with frames and wake-ups of its own."
)


def write(page, results):
    """Writes the page, and its samples and plots into a folder of the same name."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    samples = ",\n".join(json.dumps(sample) for sample in results["samples"])
    rest = {name: value for name, value in results.items() if name != "samples"}
    (folder / "samples.json").write_text(json.dumps(rest, indent=1)[:-2] + ',\n "samples": [\n' + samples + "\n]}\n")
    rows = rows_of(results["samples"])
    parts = [head(results, folder), summary(rows), machine(results), method(results, rows)]
    for group, (title, words) in GROUPS.items():
        if members := [row for row in rows if row["group"] == group]:
            (folder / f"{group}.svg").write_text(plot(title, members))
            parts.append(f"## {title}\n\n{words}\n\n{table(members)}\n![{title}]({folder.name}/{group}.svg)\n\n{compared(members)}")
    parts += [copies(rows), worse(rows, results["profiles"]), evidence(results["profiles"]), left_out(results)]
    page.write_text("\n".join(part for part in parts if part))


def rows_of(samples):
    """A row for each case: the median of each figure, and its range over the rounds."""
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
    # Each group begins with Kvorum; the others stay in the order of measurement.
    return sorted(rows, key=lambda row: row["store"] != "Kvorum")


def name(row):
    return f"{row['store']}, {row['label']}"


def amount(value):
    """Three significant digits, with separated thousands."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def copies(rows):
    """The cost of a write to three copies over that of one to one copy, for each store with both."""
    lines = []
    for kind, words in (("synced", "synced before the answer"), ("second", "synced about each second"), ("system", "no sync requested")):
        one, three = f"put-1-{kind}", f"put-3-{kind}"
        for single in (row for row in rows if row["group"] == one):
            for replicated in (row for row in rows if row["group"] == three and row["store"] == single["store"]):
                ratio = replicated["cpu_us"] / single["cpu_us"]
                lines.append(f"| {single['store']} | {words} | {amount(single['cpu_us'])} | {amount(replicated['cpu_us'])} | {ratio:.2f} |")
    if not lines:
        return ""
    return (
        "## The cost of three copies\n\nCPU us per write.\n\n| store | durability | one copy | three, two acknowledged | ratio |\n|---|---|--:|--:|--:|\n"
        + "\n".join(lines)
        + "\n"
    )


def table(rows):
    lines = [
        "| store | requests/s | p50 ms | p99 ms | p99.9 ms | CPU us per request | of that in the kernel | memory MiB | generator and its CPU us |",
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
        "CPU us per request", [row["cpu_us"] for row in rows], [amount(row["cpu_us"]) for row in rows],
        [row["kernel_us"] for row in rows], "all processes; pale: in the kernel; less is better",
    )  # fmt: skip
    rate = bars.Panel("requests/s", [row["rate"] for row in rows], [amount(row["rate"]) for row in rows], note="more is better")
    tail = bars.Panel("p99 ms", [row["p99"] for row in rows], [amount(row["p99"]) for row in rows], note="less is better")
    return bars.svg(title, plain, ours, [cpu, rate, tail])


def outcome(ours, theirs, figure):
    """`better`, `worse` or `alike`, for Kvorum; alike if the ranges of the rounds overlap."""
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
    """The ratios of all pairs."""
    lines = ["| group | Kvorum | compared with | " + " | ".join(words for words, _ in COMPARED.values()) + " |", "|---|---|---|" + "--:|" * len(COMPARED)]
    count = {"better": 0, "worse": 0, "alike": 0}
    for ours, theirs in pairs(rows):
        cells = []
        for figure in COMPARED:
            found = outcome(ours, theirs, figure)
            ratio = f"{ours[figure] / theirs[figure]:.2f}"
            cells.append({"worse": f"**{ratio}**", "alike": f"{ratio} ~", "better": ratio}[found])
            count[found] += 1
        lines.append(f"| {GROUPS[ours['group']][0]} | {ours['label']} | {name(theirs)} | {' | '.join(cells)} |")
    if len(lines) == 2:
        return ""
    return (
        "## Summary\n\nKvorum's figure over that of the other store. **Bold**: Kvorum is worse in every round. `~`: the ranges of the rounds overlap, so the run shows no "
        f"difference. Of {sum(count.values())} ratios {count['better']} are better, {count['worse']} worse and {count['alike']} show no difference.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def head(results, folder):
    versions = ", ".join(f"{store} {version}" for store, version in results["versions"].items())
    title, question = HEADINGS[results.get("conditional", False)]
    return (
        f"# {title}\n\n{question}\n\n"
        f"`{results['command']}` wrote this page, its plots and its [samples]({folder.name}/samples.json), started {results['began']} at commit "
        f"`{results['commit']}`. {versions}.\n"
    )


def machine(results):
    found = results["machine"]
    kind = "virtual machine" if found["virtual"] else "machine"
    sync = found["sync"]
    memory_only = " **That is memory, so syncs cost nothing here.**" if found["file_system"] in ("tmpfs", "ramfs") else ""
    return (
        f"## The machine\n\n{found['cores']} cores of {found['processor']}, {kind}, {found['memory_gib']:.0f} GiB, Linux {found['kernel']}; "
        f"data on {found['file_system']}.{memory_only} A sync of 4 KiB on the idle disk takes {sync['p50']:.2f} ms at the median, {sync['p99']:.2f} ms at p99. "
        f"The host took {found['stolen']:.1%} of the cores during the run. Generator, servers and replicas share the cores.\n"
    )


def method(results, rows):
    floor = next((row for row in rows if row["group"] == "floor"), None)
    floor_text = (
        f"The floor: nginx with `return 201` over the same connections took {amount(floor['cpu_us'])} us of CPU per request, {amount(floor['rate'])} requests/s, "
        f"p99 {amount(floor['p99'])} ms."
        if floor
        else ""
    )
    widest = max(rows, key=lambda row: spread(row))
    return (
        f"""## The method

{CONNECTIONS} connections, each with one request in flight (closed loop); {KEYS:,} keys of 16 bytes, chosen at random; values of 64 random bytes. All keys are put before they are read. Each round starts each store anew, in turn, and measures each case for {results['seconds']:g} s after half a second of warm-up. There are {results['rounds']} rounds, every other one in reverse order; the tables show medians.

The main figure is the CPU time per request, user and system, over all processes of a store: it remains meaningful although the generator shares the cores. Requests/s and latency are those of a machine that servers and generator saturate together, so a more expensive generator leaves less for its store; the last column shows the generator's CPU time per request. `wire` sends requests over HTTP and to Redis and memcached, with epoll on one thread (`bench/others/peers/wire`); etcd and NATS get requests from their own Go clients, with one client per connection. If a cluster has no primary, connections are spread over its nodes.

All settings are defaults except those that the labels name, and two more: each of Kvorum's three nodes has `--memory 512MiB --threads 1`, as `kvorum dev` sets them, and Redis makes no snapshots (`save ""`). Each node of etcd and NATS has a Go thread per core. Memory is the resident memory of the processes at the end of a run.

{PROMISES}
{floor_text} The rounds differ most in the CPU per request of `{name(widest).replace('`', '')}` ({GROUPS.get(widest['group'], ('floor',))[0].lower()}), by {spread(widest):.0%} of its median.
"""
    )


def spread(row):
    low, high = row["cpu_us_range"]
    return (high - low) / row["cpu_us"]


def compared(members):
    """A sentence about each other store of the group."""
    lines = []
    for ours, theirs in pairs(members):
        words = []
        for figure, (what, _) in COMPARED.items():
            found, ratio = outcome(ours, theirs, figure), ours[figure] / theirs[figure]
            words.append(f"no difference in {what}" if found == "alike" else f"{ratio:.2f} times its {what}, {found}")
        lines.append(f"- Kvorum, {ours['label']}, compared with {name(theirs)}: {'; '.join(words)}.")
    return "\n".join(lines) + ("\n" if lines else "")


def worse(rows, profiles):
    """Where Kvorum is worse, and why."""
    if not any(pairs(rows)):
        return ""
    lines = []
    for ours, theirs in pairs(rows):
        figures = [what for figure, (what, _) in COMPARED.items() if outcome(ours, theirs, figure) == "worse"]
        if figures:
            lines.append(f"- **{GROUPS[ours['group']][0]}**, {ours['label']} compared with {name(theirs)}: {', '.join(figures)}. {because(ours, theirs, profiles)}")
    if not lines:
        return "## Where Kvorum is worse\n\nKvorum is worse in no figure in every round of this run.\n"
    reasons = [REASONS[store] for store in REASONS if any(theirs["store"] == store and more(ours, theirs) for ours, theirs in pairs(rows))]
    if any(ours["group"].startswith(("put-3", "get-3")) and more(ours, theirs) for ours, theirs in pairs(rows)):
        reasons.append(REPLICATED)
    return "## Where Kvorum is worse\n\n" + "\n\n".join([*reasons, "\n".join(lines)]) + "\n"


def more(ours, theirs):
    return outcome(ours, theirs, "cpu_us") == "worse"


def because(ours, theirs, profiles):
    """What was counted about a difference in CPU time."""
    if not more(ours, theirs):
        return "The cause is not CPU per request, which is " + (
            "lower" if outcome(ours, theirs, "cpu_us") == "better" else "not different") + "; this run does not show the cause."
    user, kernel = (theirs["cpu_us"] - theirs["kernel_us"], theirs["kernel_us"])
    text = (
        f"Of {amount(ours['cpu_us'])} us, {amount(ours['kernel_us'])} are in the kernel ({amount(kernel)} of {theirs['store']}'s) "
        f"and {amount(ours['cpu_us'] - ours['kernel_us'])} in the program ({amount(user)})."
    )
    ours_profile, theirs_profile = (profile_of(row, profiles) for row in (ours, theirs))
    if ours_profile and theirs_profile:
        counted = [
            f"{amount(ours_profile['counts'][what])} {what} per request ({amount(theirs_profile['counts'][what])})"
            for what in ours_profile["counts"]
            if what in theirs_profile["counts"]
        ]
        text += f" {' and '.join(counted)}." if counted else ""
    if ours_profile:
        program = sorted(((share, part) for part, share in ours_profile["shares"].items() if part != "kernel"), reverse=True)
        spent = ", ".join(f"{part} {amount(share * ours['cpu_us'])} us" for share, part in program)
        text += f" According to the samples, Kvorum's program spends its time as follows: {spent}."
    return text


def profile_of(row, profiles):
    return next((found for found in profiles if all(found[key] == row[key] for key in ("group", "store", "label"))), None)


def evidence(profiles):
    """The figures of perf."""
    if not profiles:
        return ""
    counts = list(dict.fromkeys(what for profile in profiles for what in profile["counts"]))
    parts = {"kernel", *(part for profile in profiles if profile["store"] == "Kvorum" for part in profile["shares"])}
    parts = sorted(parts, key=lambda part: (part != "kernel", part == "other", part))
    lines = [f"| store | {' | '.join(what + ' per request' for what in counts)} | {' | '.join(parts)} |", "|---|" + "--:|" * (len(counts) + len(parts))]
    for profile in profiles:
        cells = [amount(profile["counts"][what]) if what in profile["counts"] else "" for what in counts]
        # The parts are defined by the names of Kvorum's modules and crates.
        known = parts if profile["store"] == "Kvorum" else ["kernel"]
        cells += [f"{profile['shares'].get(part, 0):.0%}" if part in known else "" for part in parts]
        lines.append(f"| {profile['method'].upper()}: {name(profile)} | {' | '.join(cells)} |")
    return (
        "## What the processes do for a request\n\n"
        "The figures come from a separate run of each case in the first round, in which perf counts events for a second (all threads of all processes of the store) and takes samples for "
        "another second. The shares are of CPU time. The parts of the program are recognized by the names of functions, so inlined code counts for its caller.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def left_out(results):
    lines = [f"- {store}: not installed; {how}." for store, how in results["left_out"].items()]
    lines += [f"- `{deployment}`: failed ({why})." for deployment, why in results["failed"].items()]
    errors = [f"- {sample['store']}, {sample['label']}: {sample['errors']} requests of round {sample['round'] + 1}." for sample in results["samples"] if sample["errors"]]
    text = "## Left out\n\n" + "\n".join(lines) + "\n" if lines else ""
    return text + ("\n## Requests that failed\n\n" + "\n".join(errors) + "\n" if errors else "")

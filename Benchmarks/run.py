#!/usr/bin/env python3
"""Measures Interlock beside Redis, other libraries, etcd and Envoy: costs, latencies, throughput, capacity and growth.

Starts a redis-server and sidecars of the release build on TCP loopback. Both sides are measured in turn, and each
figure is the median of the rounds. Prints a table for each part, and writes them to docs/internals/benchmarks.md.

With --against, measures an older binary beside the present one, and writes nothing. The sides alternate pair by pair on
one Redis. Each figure takes 5 to 30 pairs, until the 95 % interval of its mean ratio is wholly on one side of 0.97. A
ratio above 1 is better, also for latencies.

Exit codes: 0, no figure is worse and every bound holds. 1, a bound is missed; with --against, a figure is worse by more
than 3 %. 64, the command line is wrong. 70, something could not be measured, and nothing is worse.
"""

import argparse
import os
import platform
import subprocess
import sys
import textwrap
from typing import Any

from figures import (
    abuse,
    accuracy,
    against,
    capacity,
    cluster,
    decisions,
    failover,
    growth,
    locks,
    outcomes,
    sidecar,
    summary,
    trip,
)
from figures.table import Ledger, Table, figures
from peers import breaker_library, etcd, limits_library, proxy
from rig import load
from rig.sentinels import SentinelRig
from rig.servers import BINARY, ROOT, Rig

#: Limits and breakers: each part has its own services.
GUARDS = {"limits": decisions, "accuracy": accuracy, "trip": trip, "outcomes": outcomes}
#: The peers of the part `peers`. The parts `locks` and `proxy` have other peers.
PEERS = (limits_library, breaker_library, etcd)
PARTS = ("sidecar", "locks", *GUARDS, "proxy", "peers", "growth", "capacity", "abuse", "failover", "cluster")
#: The modules that measure each part.
MODULES: dict[str, tuple[Any, ...]] = {
    "sidecar": (sidecar,),
    "locks": (locks,),
    **{part: (module,) for part, module in GUARDS.items()},
    "proxy": (proxy,),
    "peers": PEERS,
    "growth": (growth,),
    "capacity": (capacity,),
    "abuse": (abuse,),
    "failover": (failover,),
    "cluster": (cluster,),
}
#: Precedes the first table.
READING = """\
Each figure is the median of several rounds, in which both sides take turns. With ÷, *result* is the median of the
rounds' ratios. Compare ratios, not single figures, because a slow machine slows both sides. Above 1, a ratio of rates
favors Interlock. Except in Growth, in Cluster and for etcd's times, it need not be the quotient of the medians beside
it."""
TITLES = {part: "Other libraries, etcd" if part == "peers" else part.capitalize() for part in PARTS}
#: The maximum number of rounds of some parts, whatever --rounds says.
MAX_ROUNDS = {"growth": growth.MAX_ROUNDS, "capacity": 1}
#: What each part needs beyond the sidecar's binary.
NEEDS = {
    "sidecar": sidecar.missing,
    "locks": load.missing,
    "failover": load.missing,
    "proxy": proxy.missing,
    "growth": growth.missing,
}


def version(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return "?"


def environment() -> str:
    """Returns the machine and the versions of the measured software."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    versions = (
        " ".join(version("redis-server", "--version").split()[:3]),
        version("swift", "--version").partition(" (")[0],
        f"Interlock {version(str(BINARY), '--version')}",
        load.peer_versions(),
        proxy.versions(),
        etcd.version(),
    )
    return f"{machine}; {'; '.join(versions)}"


def page(ledger: Ledger, environment: str) -> str:
    measured = ledger.ordered(PARTS)
    sections = "\n\n".join(
        "\n\n".join(
            [
                f"## {TITLES[part]}",
                *([READING] if part == measured[0][0] else []),
                *entry.get("notes", notes_of(part)),
                figures(entry["rows"]),
                *entry["details"],
            ]
        )
        for part, entry in measured
    )
    origins: dict[str, dict[int, list[str]]] = {}
    for part, entry in measured:
        origin = origins.setdefault(f"{entry['day']}, commit {entry['commit']}", {})
        origin.setdefault(entry["rounds"], []).append(part)
    rounds = "\n".join(
        textwrap.fill(
            f"- {origin}; rounds: " + "; ".join(f"{', '.join(parts)} {count}" for count, parts in counts.items()),
            120,
            subsequent_indent="  ",
        )
        for origin, counts in origins.items()
    )
    return f"""# Benchmarks

`make bench` compares Interlock to Redis, other libraries, etcd and Envoy, and writes this page.

## Summary

{summary.text(measured)}

## How to read the tables

All programs run on one machine, over TCP loopback.

{textwrap.fill(environment, 120, break_on_hyphens=False)}.

{sections}

## When each part was measured

{rounds}
"""


def notes_of(part: str) -> list[str]:
    """Returns the explanations of how a part is measured."""
    return [module.EXPLANATION for module in MODULES[part]]


def measure(part: str, table: Table, rounds: int, scale: int) -> None:
    """Measures one part."""
    if part == "locks":
        with Rig() as rig:
            locks.measure(rig, table, rounds, scale)
    elif part == "sidecar":
        with Rig() as rig:
            sidecar.measure(rig, table, rounds, scale)
    elif part == "proxy":
        with Rig() as rig:
            proxy.measure(rig, table, rounds, scale)
    elif part == "peers":
        for peer in PEERS:
            with Rig(peer.CONFIGURATION) as rig:
                peer.measure(rig, table, rounds, scale)
    elif part == "growth":
        growth.measure(table, rounds, scale)
    elif part == "capacity":
        with Rig() as rig:
            capacity.measure(rig, table)
    elif part == "abuse":
        with Rig(abuse.CONFIGURATION) as rig:
            abuse.measure(rig, table, rounds, scale)
    elif part == "failover":
        with SentinelRig() as rig:
            failover.measure(rig, table, rounds, scale)
    elif part == "cluster":
        cluster.measure(table, rounds, scale)
    else:
        with Rig(GUARDS[part].CONFIGURATION) as rig:
            GUARDS[part].measure(rig, table, rounds, scale)


def parts_of(text: str) -> list[str]:
    """Parses parts that are separated by commas."""
    parts = text.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"no part {', '.join(map(repr, unknown))} (choose from {', '.join(PARTS)})")
    return parts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds",
        type=int,
        help="pairs of runs per figure (default 5); with --against the maximum number of pairs (5 to 30, default 30)",
    )
    parser.add_argument("--scale", type=int, default=100, help="length of each run in percent (default 100)")
    parser.add_argument("--no-write", action="store_true", help="leave docs/internals/benchmarks.md alone")
    parser.add_argument(
        "--only",
        type=parts_of,
        action="extend",
        metavar="PART[,PART]",
        help=f"measure only these parts: {', '.join(PARTS)}; the page keeps the last figures of the others",
    )
    parser.add_argument(
        "--against",
        metavar="BINARY",
        help="the interlock of another commit to compare with. The library is compared too if InterlockBenchmarks is "
        f"in the same directory. Parts: {', '.join(against.PARTS)}",
    )
    options = parser.parse_args()
    if options.against is not None:
        return against.main(options.against, options.only, options.rounds, options.scale)
    rounds = 5 if options.rounds is None else options.rounds
    if not BINARY.exists():
        sys.exit("benchmark: build first: make build")
    parts = [part for part in PARTS if part in (options.only or PARTS)]
    for part in parts:
        if part in NEEDS and (lacking := NEEDS[part]()):
            sys.exit(f"benchmark: {lacking}")
    ledger = Ledger()
    commit = version("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    holds = True
    for part in parts:
        table = Table()
        measure(part, table, rounds, options.scale)
        holds = holds and table.holds
        print("\n" + "\n\n".join([table.markdown(), *table.details]) + "\n", flush=True)
        if not options.no_write:
            ledger.note(part, table, min(rounds, MAX_ROUNDS.get(part, rounds)), commit, notes_of(part))
    if not options.no_write:
        if unmeasured := ledger.missing(PARTS):
            print(f"docs/internals/benchmarks.md is written once {', '.join(unmeasured)} was measured here too")
        else:
            docs = ROOT / "docs" / "internals"
            load.draw([plot for _, entry in ledger.ordered(PARTS) for plot in entry.get("plots", [])], docs)
            (docs / "benchmarks.md").write_text(page(ledger, environment()))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measures what Interlock costs and how fast it is, beside Redis itself, other libraries and another proxy, in one run.

Starts a redis-server and sidecars of the release build on TCP loopback and drives both sides, alternating; each figure is the
median of the rounds. Prints one table with both sides and their ratio, and writes it to docs/benchmarks.md.
"""

import argparse
import os
import platform
import subprocess
import sys
import time

import accuracy
import handover
import library
import limits
import linked
import load
import outcomes
import proxy
import sidecar
import trip
from rig import BINARY, ROOT, Rig
from table import Table

#: Limits and breakers: each part has services of its own.
GUARDS = {"limits": limits, "accuracy": accuracy, "trip": trip, "outcomes": outcomes}
PARTS = ("sidecar", "locks", *GUARDS, "proxy")


def version(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return "?"


def page(table, rounds, loaded):
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    versions = "; ".join([
        version("redis-server", "--version"), version("swift", "--version"), version(str(BINARY), "--version"),
        load.peer_versions(), proxy.versions()])
    explanations = "\n\n".join(part.EXPLANATION for part in GUARDS.values())
    details = "\n\n".join(table.details)
    return f"""# Benchmarks

Written by `make bench` on {time.strftime('%Y-%m-%d')}: {machine}. {versions}.

Redis, the sidecars and whatever makes the load share the machine, over TCP loopback. Each figure is the median of
{rounds} rounds, sides alternating; a ratio is the median of the rounds' ratios. Compare ratios, not single figures.

{table.markdown()}

Resident after the calls above: {loaded:.1f} MB.

**Hand-over**: all clients want one lock; each takes it and gives it back at once, over and over. The clients of Interlock are
connections of one process, half of them at each of two sidecars; the others' are as many processes of Python, with the
library's defaults. There, whoever has just given the lock back may take it again before the others notice, which makes cycles
cheap and waits long: cycles that went to another client are counted apart. A script is one command to Redis, whatever it calls.

**Linked leases** are measured once, not in rounds. Their memory is that of the whole process, the connections' included.

{explanations}

{proxy.EXPLANATION}

{details}
"""


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5, help="pairs of runs per figure (default 5)")
    options.add_argument("--scale", type=int, default=100, help="length of each run in percent (default 100)")
    options.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md alone")
    options.add_argument("--only", choices=(*PARTS, "all"), default="all",
                         help="a part of the figures, which are printed and not written")
    options = options.parse_args()
    if not BINARY.exists():
        sys.exit("benchmark: build first: swift build -c release --product interlock")
    parts = PARTS if options.only == "all" else (options.only,)
    for part, missing in (("locks", load.missing), ("proxy", proxy.missing)):
        if part in parts and (lacking := missing()):
            sys.exit(f"benchmark: {lacking}")
    table = Table()
    if "sidecar" in parts:
        with Rig() as rig:
            loaded = sidecar.measure(rig, table, options.rounds, options.scale)
    if "locks" in parts:
        with Rig() as rig:
            handover.measure(rig, table, options.rounds, options.scale)
            library.measure(rig, table, options.rounds, options.scale)
            linked.measure(rig, table, options.scale)
    for name, part in GUARDS.items():
        if name in parts:
            with Rig(part.CONFIGURATION) as rig:
                part.measure(rig, table, options.rounds, options.scale)
    if "proxy" in parts:
        with Rig() as rig:
            proxy.measure(rig, table, options.rounds, options.scale)
    if options.only != "all":
        print("\n" + "\n\n".join([table.markdown(), *table.details]))
        return 0 if table.holds else 1
    text = page(table, options.rounds, loaded)
    print("\n" + text)
    if not options.no_write:
        (ROOT / "docs" / "benchmarks.md").write_text(text)
    return 0 if table.holds else 1


if __name__ == "__main__":
    sys.exit(main())

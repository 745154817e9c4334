#!/usr/bin/env python3
"""Judges other lock software as `interlock bench` judges Interlock: the same
load, faults and checkers for each.

  interlock bench peers --results peers-1                    hours; see below
  interlock bench peers --results peers-1 --jobs 4           four parts at a time
  interlock bench peers --results peers-1 --minutes 60       only an hour of it
  interlock bench peers --results peers-1 --table            the table so far
  interlock bench peers --results peers-1 --compare peers-2  compares two runs

Each part starts fresh servers and eight clients, then kills, stops or
partitions a server. It takes about 30 seconds. After Ctrl-C, the same command
continues.
Violations are results, not errors. docs/internals/peers.md has the details.

Exit codes: 0, every part is done. 1, with --compare: the runs rank the peers
differently, or are not complete. 64, the command line is wrong. 70, a part
could not be run. 75, --minutes are over, and parts are left. 130, interrupted.
"""

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import Any

from judged import arenas, part
from judged.results import USAGE, Key, Results, keys, markdown, ranking, totals
from judged.settings import PEERS, TOPOLOGIES, settings_lines, unsupported
from peers import etcd
from rig import servers
from rig.load import PYTHON, missing_library
from rig.priority import run_first
from rig.servers import BENCH, BINARY, ROOT, print_line

SOFTWARE, TEMPORARY, INTERRUPTED = 70, 75, 130
#: Seconds that nearly every part ends within.
LONGEST_PART = 90
#: The libraries that each peer's clients import.
LIBRARIES = {"redis-py": "redis", "python-redis-lock": "redis_lock", "pottery": "pottery"}
GO_PEERS = ("redsync", "etcd")
VERSIONS = ("redis", "python-redis-lock", "pottery")


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        print(f"interlock bench peers: {message}", file=sys.stderr)
        sys.exit(USAGE)


def parser() -> Parser:
    made = Parser(
        prog="interlock bench peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, choices in (("peer", tuple(PEERS)), ("topology", TOPOLOGIES)):
        known = f"run only these, of {', '.join(choices)}; default: all"
        made.add_argument(
            f"--{name}", nargs="+", choices=choices, default=list(choices), metavar=name.upper(), help=known
        )
    made.add_argument("--failovers", type=positive, default=50, help="for each peer and topology; default %(default)s")
    made.add_argument("--seed", type=int, default=1, help="the seed of faults and load; default %(default)s")
    made.add_argument(
        "--results",
        type=pathlib.Path,
        default=ROOT / ".build" / "peers",
        help="a directory for the result and history of each part; default .build/peers. Finished parts are skipped",
    )
    made.add_argument("--jobs", type=positive, default=1, help="parts at the same time, default %(default)s")
    made.add_argument("--minutes", type=positive, help="start no part in the last 90 seconds of this time")
    made.add_argument(
        "--redsync", type=pathlib.Path, default=arenas.REDSYNC, help="redsync's source, default %(default)s"
    )
    made.add_argument(
        "--urgent", action="store_true", help="take priority over other programs on a busy machine; needs root"
    )
    made.add_argument("--table", action="store_true", help="print the table of the results, and run nothing")
    made.add_argument("--settings", action="store_true", help="print the settings of every peer, and run nothing")
    made.add_argument(
        "--compare",
        type=pathlib.Path,
        metavar="DIR",
        help="print the figures of both runs, and whether they rank the peers alike; run nothing",
    )
    made.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return made


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {number}")
    return number


def unavailable(peer: str, redsync: pathlib.Path) -> str | None:
    """Returns why a peer cannot run here, or None."""
    if peer in GO_PEERS:
        if peer == "etcd" and not shutil.which("etcd"):
            return "etcd is not installed; `make bench-peers` installs it if a package is available"
        return arenas.build_go_program(peer, redsync)
    return missing_library(LIBRARIES.get(peer, "redis"))


def redsync_version(source: pathlib.Path) -> str:
    command = ["git", "-C", str(source), "describe", "--tags", "--always"]
    described = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return described.stdout.strip() if described.returncode == 0 else "missing"


def versions(redsync: pathlib.Path) -> dict[str, str]:
    program = (
        "import importlib.metadata as m, json; "
        f"print(json.dumps({{n: m.version(n) for n in {VERSIONS!r} if any(m.distributions(name=n))}}))"
    )
    found = json.loads(subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, timeout=20).stdout)
    for name, command in (("Interlock", [str(BINARY)]), ("Redis", ["redis-server"])):
        printed = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=20).stdout
        found[name] = next((word[2:] for word in printed.split() if word.startswith("v=")), printed.strip())
    return {**found, "etcd": etcd.version().split()[-1], "redsync": redsync_version(redsync)}


def show_settings(as_json: bool) -> None:
    if as_json:
        print(json.dumps({peer: one._asdict() for peer, one in PEERS.items()}))
        return
    print("\n".join(settings_lines()))


def figures_of(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"topology": key[0], "peer": key[1], **one} for key, one in totals(parts).items()]


def show_table(results: Results, as_json: bool) -> None:
    found = results.load()
    if as_json:
        print(json.dumps(figures_of(found)))
        return
    print(markdown(found))
    for (topology, peer), one in totals(found).items():
        others = [f"{count} {name}" for name, count in one["other_violations"].items()]
        others += [f"{one['unlisted_violations']} not listed by the judge"] if one["unlisted_violations"] else []
        others += [f"{one['never_granted_again']} parts without a later grant"] if one["never_granted_again"] else []
        if others:
            print(f"\n{PEERS[peer].title}, {topology}, other findings: {', '.join(others)}")


def compare(folders: tuple[Results, Results], topologies: list[str], as_json: bool) -> int:
    """Prints the figures and the rankings of two runs. Returns the exit code."""
    runs = [one.load() for one in folders]
    counts = [Counter((part["topology"], part["peer"]) for part in run) for run in runs]
    if counts[0] != counts[1] or len(set(counts[0].values())) != 1:
        print("The runs are not complete: the peers have lost different numbers of servers.", file=sys.stderr)
        return 1
    tested = [topology for topology in topologies if topology in {one for one, _ in counts[0]}]
    rankings = {topology: [ranking(run, topology) for run in runs] for topology in tested}
    is_alike = all(first == second for first, second in rankings.values())
    if as_json:
        print(json.dumps({"runs": [figures_of(run) for run in runs], "rankings": rankings, "alike": is_alike}))
        return 0 if is_alike else 1
    print(markdown(*runs), end="\n\n")
    for topology, places in rankings.items():
        for one, order in zip(folders, places, strict=True):
            print(f"{topology}, {one.folder}: {' > '.join(' = '.join(place) for place in order)}")
    print("The runs rank the peers alike." if is_alike else "The runs rank the peers differently.")
    return 0 if is_alike else 1


def run(options: argparse.Namespace, results: Results) -> int:
    if (other := results.other_seed(options.seed)) is not None:
        print(
            f"interlock bench peers: {results.folder} has results of seed {other}; "
            f"pass --seed {other}, or another directory with --results",
            file=sys.stderr,
        )
        return USAGE
    for binary in (BINARY, BENCH):
        if not binary.exists():
            print(f"interlock bench peers: {binary} is missing; run `make build`", file=sys.stderr)
            return SOFTWARE
    if options.urgent:
        run_first()
    # The servers' files stay in memory, because many servers sync each change to disk.
    if arenas.etcd.MEMORY.is_dir():
        tempfile.tempdir = str(arenas.etcd.MEMORY)
    peers = []
    for peer in options.peer:
        if why := unavailable(peer, options.redsync):
            print_line(f"{peer}: skipped: {why}")
        else:
            peers.append(peer)
            for topology in options.topology:
                if why := unsupported(peer, topology):
                    print_line(f"{peer}, {topology}: skipped: {why}")
    found_versions = versions(options.redsync)
    print_line(f"versions: {', '.join(f'{name} {version}' for name, version in found_versions.items())}")
    wanted = list(keys(peers, options.topology, options.failovers))
    left = results.missing(wanted)
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    failures = 0
    running: dict[int, tuple[multiprocessing.Process, range]] = {}
    ports = shares(servers.PORTS, options.jobs)
    try:
        for done, key in enumerate(left, len(wanted) - len(left) + 1):
            if not ports:
                process, its_ports = first_ended(running)
                failures += process.exitcode != 0
                ports.append(its_ports)
            if until and time.monotonic() + LONGEST_PART > until:
                print_line(
                    f"stopped because of --minutes {options.minutes}; the same command continues with {key.name}"
                )
                break
            its_ports = ports.pop()
            arguments = (its_ports, results, key, options.seed, found_versions, f"{done} of {len(wanted)}")
            process = multiprocessing.Process(target=run_part, args=arguments)
            process.start()
            running[process.sentinel] = process, its_ports
        while running:
            failures += first_ended(running)[0].exitcode != 0
    finally:
        for process, _ in running.values():
            process.terminate()
            process.join()
    if failures:
        return SOFTWARE
    return TEMPORARY if results.missing(wanted) else 0


def shares(ports: range, count: int) -> list[range]:
    """Returns ranges of ports without overlap."""
    length = len(ports) // count
    return [ports[one * length : (one + 1) * length] for one in range(count)]


def first_ended(
    running: dict[int, tuple[multiprocessing.Process, range]],
) -> tuple[multiprocessing.Process, range]:
    """Waits until a part has ended, and removes it."""
    [sentinel, *_] = multiprocessing.connection.wait(list(running))
    process, ports = running.pop(sentinel)  # type: ignore[arg-type]
    process.join()
    return process, ports


def run_part(ports: range, results: Results, key: Key, seed: int, found_versions: dict[str, str], count: str) -> None:
    """Runs a part in this process, which exits with 1 if the part could not be run.

    ports: no other part uses them. Otherwise, two parts could draw the same port before either server has it.
    """
    servers.PORTS = ports
    # The parent's state would draw the same ports for every part.
    random.seed()
    begin = time.monotonic()
    try:
        figures = part.run(key.peer, key.topology, seed, key.number, results.histories, key.name)
    except (Exception, SystemExit) as error:
        print_line(f"{count}, {key.name}: not done: {error or type(error).__name__}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(1)
    results.save(key, seed, {**figures, "load": os.getloadavg()[0], "versions": found_versions})
    gap = figures["without_grant_ms"]
    words = (
        f"{figures['grants']} grants",
        f"{figures['two_holders']} with two holders",
        f"{figures['lost']} lost",
        f"{figures['never_released']} never released",
        f"{figures['stale_writes']} stale writes",
        f"{gap / 1000:.1f} s without a grant" if gap else "no grant after the loss",
    )
    print_line(f"{count}, {key.name}, {figures['loss']}: {', '.join(words)} ({time.monotonic() - begin:.0f} s)")


def main() -> int:
    options = parser().parse_args()
    results = Results(options.results)
    for one in (results, Results(options.compare)) if options.compare else (results,) if options.table else ():
        if not one.load():
            print(
                f"interlock bench peers: {one.folder} has no results; run with --results {one.folder} first",
                file=sys.stderr,
            )
            return USAGE
    if options.settings:
        show_settings(options.json)
        return 0
    if options.compare:
        return compare((results, Results(options.compare)), options.topology, options.json)
    if not options.table:
        code = run(options, results)
        if code == USAGE:
            return code
    else:
        code = 0
    show_table(results, options.json)
    return code


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # A shell ignores SIGINT for background jobs. The servers must stop on either signal.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interlock bench peers: interrupted; the same command continues", file=sys.stderr)
        sys.exit(INTERRUPTED)

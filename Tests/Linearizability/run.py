#!/usr/bin/env python3
"""Judges histories a second time, by other rules and in another language than `interlock bench check`.

The judge searches for a sequential order of the operations that their answers and times allow. If a lock or a forced
breaker has no such order, the history is not linearizable, and the product or this judge has a bug.

The judge covers exclusive locks and forced states while Redis is one primary that keeps its data and clock. It prints
the number of operations that it does not judge, by reason.

Exit codes: 0, all judged operations fit; 1, a history is not linearizable or not complete, or nothing was judged; 64,
invalid command line; 69, the program `simulate` is missing.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import forced
import histories
import locks
from histories import Call, History, HistoryError
from search import FOREVER, Search, Undecided

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIMULATE = ROOT / ".build" / "release" / "simulate"
USAGE, UNAVAILABLE = 64, 69


@dataclass
class Verdict:
    """The result for one history."""

    #: The lock operations and the judged ones; the decisions of breakers and those while a forced state was certain.
    lock_calls: int = 0
    judged: int = 0
    decisions: int = 0
    bound: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    #: The highest number of configurations in a search.
    most: int = 1

    def lines(self) -> Iterator[str]:
        yield (
            f"{self.judged} of {self.lock_calls} lock operations judged, and {self.decisions} decisions of breakers, "
            f"{self.bound} of them while a forced state was certain"
        )
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.skipped.items()) if count)
        if reasons:
            yield f"not judged: {reasons}"
        yield from self.problems


def judge(history: History, late: int | None = None) -> Verdict:
    """Judges a history.

    - Parameter late: the longest delay after an unanswered call and after the faults that may have delayed it, in
      nanoseconds. `None`: no limit.
    """
    verdict = Verdict()
    by_lock: dict[int, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.what in ("acquire", "renew", "release"):
            by_lock[call.request["lock"]].append(call)
    verdict.lock_calls = sum(map(len, by_lock.values()))
    if history.has_several_primaries:
        verdict.skipped["lock operations and all forced states: several primaries"] += verdict.lock_calls
        return verdict
    for lock, calls in sorted(by_lock.items()):
        if any(call.request.get("mode", "exclusive") != "exclusive" for call in calls):
            verdict.skipped["on locks that are not exclusive"] += len(calls)
            continue
        judge_lock(history, lock, calls, late, verdict)
    for service, sidecar, view in forced.views(history):
        verdict.decisions += view.decisions
        verdict.bound += view.bound
        found = Search(view, view.operations).run()
        if found is not None:
            name = f"{history.services[service]} at sidecar {sidecar}"
            text = found.operation.text if found.operation else "nothing"
            verdict.problems.append(f"{name}: no order explains: {text}; before: {found.before}")
    return verdict


def judge_lock(history: History, lock: int, calls: list[Call], late: int | None, verdict: Verdict) -> None:
    judged = 0
    skipped: Counter[str] = Counter()
    for start, end in history.segments():
        part = locks.LockHistory(history, lock, calls, start, end, late)
        skipped += part.excused
        search = Search(part.model, part.operations, part.model.ticks())
        try:
            found = search.run()
        except Undecided:
            skipped["on a lock with too many possible orders"] += len(part.operations)
            continue
        judged += len(part.operations)
        verdict.most = max(verdict.most, search.most)
        if found is not None:
            text = found.operation.text if found.operation else f"a lease that has not ended by {found.at}"
            verdict.problems.append(f"lock {lock}: no order explains: {text}; before: {found.before}")
    skipped["without a certain answer, which may or may not have had an effect"] += sum(
        call.is_doubtful for call in calls
    )
    skipped["during a loss of data or a clock jump"] += len(calls) - judged - skipped.total()
    verdict.judged += judged
    verdict.skipped += skipped


def simulated(arguments: argparse.Namespace, folder: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        print(f"linearizability: simulating seed {seed}", file=sys.stderr)
        path = folder / f"{seed}.jsonl"
        command = [arguments.simulate, "--seed", seed, "--operations", arguments.operations, "--history", path]
        done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
        if not path.exists():
            raise HistoryError(f"seed {seed}: simulate wrote no history: {done.stderr.strip() or done.stdout.strip()}")
        yield f"seed {seed}", path
        path.unlink()


def judge_all(named: Iterator[tuple[str, pathlib.Path]], late: int | None) -> int:
    worst = 0
    totals = Verdict()
    count = 0
    for name, path in named:
        began = time.monotonic()
        verdict = judge(histories.read(path), late)
        count += 1
        worst = max(worst, 1 if verdict.problems else 0)
        totals.lock_calls += verdict.lock_calls
        totals.judged += verdict.judged
        totals.decisions += verdict.decisions
        totals.bound += verdict.bound
        seconds = time.monotonic() - began
        for line in verdict.lines():
            print(f"{name}: {line}", flush=True)
        if seconds > 2:
            print(f"{name}: the search took {seconds:.1f} s", file=sys.stderr)
    found = "not linearizable" if worst else "no contradiction"
    if not worst and totals.judged + totals.bound == 0:
        worst, found = 1, "nothing judged"
    print(f"{found} in {count} histories: {next(totals.lines())}")
    return worst


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"linearizability: {message}\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "histories", nargs="*", type=pathlib.Path, help="files from --history; without files, worlds are simulated"
    )
    parser.add_argument("--seeds", type=int, default=20, help="the number of simulated worlds (default: 20)")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first world (default: 1)")
    parser.add_argument("--operations", type=int, default=2000, help="the operations in each world (default: 2000)")
    parser.add_argument("--simulate", type=pathlib.Path, default=SIMULATE, help="the program that simulates worlds")
    parser.add_argument(
        "--late",
        type=float,
        metavar="SECONDS",
        help="the longest delay after an unanswered call and the faults around it (default: no limit)",
    )
    parsed = parser.parse_args(arguments)
    if parsed.seeds < 1 or parsed.operations < 1 or (parsed.late is not None and not 0 <= parsed.late < 1e6):
        parser.error("--seeds and --operations must be positive, and --late must not be negative")
    return parsed


def main(arguments: list[str] | None = None) -> int:
    parsed = parse(arguments)
    late = None if parsed.late is None else min(FOREVER, int(parsed.late * 1e9))
    # Popen searches PATH for a program without a slash.
    parsed.simulate = parsed.simulate.resolve()
    try:
        if parsed.histories:
            return judge_all(((str(path), path) for path in parsed.histories), late)
        if not parsed.simulate.is_file():
            print(f"linearizability: {parsed.simulate} is missing; run `make linearizability`", file=sys.stderr)
            return UNAVAILABLE
        with tempfile.TemporaryDirectory() as folder:
            return judge_all(simulated(parsed, pathlib.Path(folder)), late)
    except HistoryError as error:
        print(f"linearizability: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Plants lies in recorded histories, and compares the results of this judge and of `interlock bench check`.

Each lie changes one answer or time of an exclusive lock or a forced breaker so that it breaks a promise, unless a fault
excuses it. If only one judge rejects a lie, the difference needs an explanation.

Exit codes: 0, each kind of lie was planted and compared, whatever the results; 1, a history is not complete, or has
no position for any lie of a kind; 64, invalid command line; 69, the program `interlock-bench` is missing.
"""

import argparse
import copy
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import histories
import run
from run import ROOT, UNAVAILABLE, Parser

Line = dict[str, Any]
Lines = list[Line]
Pair = tuple[int, int]
BENCH = ROOT / ".build" / "release" / "interlock-bench"


class Calls:
    """The requests of a history with their answers, by the indices of their lines, in random order."""

    def __init__(self, lines: Lines, order: random.Random) -> None:
        self.lines, self.order = lines, order
        self.pairs: list[Pair] = []
        waiting: dict[int, int] = {}
        modes: dict[int, set[str]] = {}
        for index, line in enumerate(lines):
            if line["what"] in histories.REQUESTS:
                waiting[line["client"]] = index
                if line["what"] == "acquire":
                    modes.setdefault(line["lock"], set()).add(line.get("mode", "exclusive"))
            elif line["what"] in histories.ANSWERS and line["client"] in waiting:
                self.pairs.append((waiting.pop(line["client"]), index))
        self.exclusive = {lock for lock, names in modes.items() if names == {"exclusive"}}
        self.releases = {lines[pair[0]]["lease"]: pair for pair in self.find("release", "released")}

    def find(self, request: str, answer: str, reason: str | None = None) -> list[Pair]:
        """Returns the calls of exclusive locks with this answer, in order of the answers."""
        return [
            (begin, end)
            for begin, end in self.pairs
            if self.lines[begin]["what"] == request
            and self.lines[end]["what"] == answer
            and reason in (None, self.lines[end].get("reason"))
            and self.lines[begin]["lock"] in self.exclusive
            and not self.lines[begin].get("ok")
        ]

    def shuffled(self, pairs: Iterable[Any]) -> list[Any]:
        pairs = list(pairs)
        return self.order.sample(pairs, len(pairs))

    def of(self, request: str, answer: str, reason: str | None = None) -> list[Pair]:
        return self.shuffled(self.find(request, answer, reason))

    def neighbors(self) -> list[tuple[Pair, Pair]]:
        """Returns the pairs of consecutive grants of each lock."""
        by_lock: dict[int, list[Pair]] = {}
        for pair in self.find("acquire", "granted"):
            by_lock.setdefault(self.lines[pair[0]]["lock"], []).append(pair)
        return self.shuffled(pair for grants in by_lock.values() for pair in itertools.pairwise(grants))


def answer(lines: Lines, index: int, what: str, **fields: object) -> Lines:
    """Returns the lines with another answer."""
    changed = copy.copy(lines)
    changed[index] = {"at": lines[index]["at"], "what": what, "client": lines[index]["client"], **fields}
    return changed


def without(lines: Lines, indices: set[int]) -> Lines:
    return [line for index, line in enumerate(lines) if index not in indices]


def end_of(calls: Calls, grant: Pair) -> int:
    """Returns the end of the time for which a client may rely on a lease that is never renewed."""
    return int(calls.lines[grant[0]]["at"] + calls.lines[grant[1]]["valid"] * 1_000_000)


def second_holder(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A client is granted a lock that another client holds."""
    held = [
        (lines[begin]["lock"], end, released[0])
        for begin, end in calls.of("acquire", "granted")
        if (released := calls.releases.get(lines[end]["lease"]))
        and lines[released[0]]["at"] < end_of(calls, (begin, end))
    ]
    for begin, end in calls.of("acquire", "refused", "held"):
        for lock, granted, release in held:
            if lines[begin]["lock"] == lock and granted < end < release:
                fence = lines[granted]["fence"] + 1
                yield answer(lines, end, "granted", lease=10**9, fence=fence, valid=lines[begin]["ttl"])


def swapped_fences(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """Two consecutive grants have each other's fence."""
    for (_, first), (begin, second) in calls.neighbors():
        if first < begin and lines[first]["lease"] != lines[second]["lease"]:
            changed = copy.copy(lines)
            changed[first] = lines[first] | {"fence": lines[second]["fence"]}
            changed[second] = lines[second] | {"fence": lines[first]["fence"]}
            yield changed


def equal_fences(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A grant has the fence of the previous grant."""
    for (_, first), (begin, second) in calls.neighbors():
        if first < begin and lines[first]["lease"] != lines[second]["lease"]:
            changed = copy.copy(lines)
            changed[second] = lines[second] | {"fence": lines[first]["fence"]}
            yield changed


def soaring_fence(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A grant has a fence that is higher than all later ones."""
    for (_, first), (begin, _) in calls.neighbors():
        if first < begin:
            changed = copy.copy(lines)
            changed[first] = lines[first] | {"fence": lines[first]["fence"] + 10**15}
            yield changed


def dropped_release(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A release never happened, but the next client gets the lock."""
    for first, (_, second) in calls.neighbors():
        released = calls.releases.get(lines[first[1]]["lease"])
        if released and released[1] < second and lines[second]["at"] < end_of(calls, first):
            yield without(lines, set(released))


def late_release(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A release is requested only after the next client got the lock."""
    for first, (_, second) in calls.neighbors():
        released = calls.releases.get(lines[first[1]]["lease"])
        if not released or released[1] > second or lines[second]["at"] >= end_of(calls, first):
            continue
        own = lines[released[0]]["client"]
        if any(line.get("client") == own for line in lines[released[1] + 1 : second + 1]):
            continue
        moved = [lines[index] | {"at": lines[second]["at"]} for index in released]
        changed = without(lines, set(released))
        place = changed.index(lines[second]) + 1
        yield changed[:place] + moved + changed[place:]


def early_grant(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A grant is requested and answered before the previous holder asks for its release."""
    for first, second in calls.neighbors():
        released = calls.releases.get(lines[first[1]]["lease"])
        if not released or not first[1] < released[0] < second[1] or lines[released[0]]["at"] >= end_of(calls, first):
            continue
        own = lines[second[0]]["client"]
        if any(line.get("client") == own for line in lines[released[0] : second[0]]):
            continue
        begin = min(second[0], released[0])
        moved = [lines[index] | {"at": min(lines[index]["at"], lines[released[0]]["at"])} for index in second]
        changed = (
            without(lines[:begin], set(second)) + moved + without(lines[begin:], {each - begin for each in second})
        )
        yield changed


def stolen_release(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A client releases a lease that has ended."""
    for _, end in calls.of("release", "refused", "lost"):
        yield answer(lines, end, "released")


def revived_lease(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A client renews a lease that has ended."""
    for begin, end in calls.of("renew", "refused", "lost"):
        yield answer(lines, end, "renewed", valid=lines[begin]["ttl"] * 99 // 100 - 2)


def lost_lease(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A client's valid lease is reported as lost."""
    for grant in calls.of("acquire", "granted"):
        released = calls.releases.get(lines[grant[1]]["lease"])
        if released and lines[released[1]]["at"] < end_of(calls, grant):
            yield answer(lines, released[1], "refused", reason="lost")


def false_refusal(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A client is refused a free lock as held."""
    for begin, end in calls.of("acquire", "granted"):
        if not lines[begin].get("wait"):
            lease = lines[end]["lease"]
            gone = {index for index, line in enumerate(lines) if line.get("lease") == lease and index != end}
            gone |= {last for first, last in calls.pairs if first in gone}
            yield without(answer(lines, end, "refused", reason="held"), gone)


def long_validity(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A lease is promised until after the next client's grant."""
    for first, (begin, second) in calls.neighbors():
        lease = lines[first[1]]["lease"]
        uses = [line for line in lines[first[1] + 1 : second] if line.get("lease") == lease and line["what"] != "wrote"]
        if not uses and first[1] < begin and lines[second]["lease"] != lease:
            changed = copy.copy(lines)
            valid = (lines[second]["at"] - lines[first[0]]["at"]) // 1_000_000 + 1000
            changed[first[1]] = lines[first[1]] | {"valid": valid}
            yield changed


def forced_periods(lines: Lines) -> Iterator[tuple[int, int, str]]:
    """Yields the first and last lines and the state of each period in which a service is forced."""
    for index, line in enumerate(lines):
        if line["what"] == "forced" and "state" in line:
            until = line.get("until", 1 << 62) - 300_000_000
            ends = [
                place
                for place in range(index + 1, len(lines))
                if lines[place]["at"] >= until
                or (lines[place]["what"] == "forced" and lines[place]["service"] == line["service"])
            ]
            yield index, min(ends, default=len(lines) - 1), line["state"]


def ignored_force(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A decision contradicts a forced state that its sidecar has reported."""
    for start, stop, state in calls.shuffled(forced_periods(lines)):
        service = lines[start]["service"]
        wanted = "open" if state == "open" else "closed"
        known: dict[int, int] = {}
        for index in range(start, stop):
            line = lines[index]
            if line["what"] == "breaker" and line["service"] == service and line["state"] == wanted:
                known.setdefault(line["sidecar"], index)
        for begin, end in calls.shuffled(calls.pairs):
            request, reply = lines[begin], lines[end]
            if request["what"] != "permit" or request["service"] != service or not start < begin < end < stop:
                continue
            if known.get(request["sidecar"], end) > begin:
                continue
            if wanted == "open" and reply.get("reason") == "open":
                yield answer(lines, end, "permitted", permit=10**9, state="closed")
            if wanted == "closed" and reply["what"] == "permitted":
                yield answer(lines, end, "refused", reason="open", retry=100)


def ended_force(lines: Lines, calls: Calls) -> Iterator[Lines]:
    """A sidecar reports another state than the forced one."""
    for start, stop, state in calls.shuffled(forced_periods(lines)):
        service = lines[start]["service"]
        wanted = "open" if state == "open" else "closed"
        for index in range(start, stop):
            line = lines[index]
            if line["what"] == "breaker" and line["service"] == service and line["state"] == wanted:
                other = {"state": "closed" if wanted == "open" else "open", "generation": line["generation"] + 1}
                report = {name: value for name, value in line.items() if name != "until"} | other
                if index + 1 < stop:
                    report["at"] = max(line["at"], (line["at"] + lines[stop]["at"]) // 2)
                    place = next(each for each in range(index + 1, len(lines)) if lines[each]["at"] >= report["at"])
                    yield [*lines[:place], report, *lines[place:]]


LIES: list[Callable[[Lines, Calls], Iterator[Lines]]] = [
    second_holder,
    swapped_fences,
    equal_fences,
    soaring_fence,
    dropped_release,
    late_release,
    early_grant,
    stolen_release,
    revived_lease,
    lost_lease,
    false_refusal,
    long_validity,
    ignored_force,
    ended_force,
]


def write(path: pathlib.Path, header: Line, lines: Lines, end: Line) -> None:
    end = end | {"events": len(lines)}
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [header, *lines, end])
    path.write_text(text, encoding="utf-8")


def is_rejected(bench: pathlib.Path, path: pathlib.Path) -> bool:
    done = subprocess.run([str(bench), "check", str(path)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or "violation" not in done.stdout + done.stderr:
        raise histories.HistoryError(f"{path}: interlock-bench failed: {done.stderr.strip()}")
    return done.returncode == 1


def compare(arguments: argparse.Namespace) -> list[str]:
    """Prints the table. Returns the kinds of lies that no history has a position for."""
    late = None if arguments.late is None else int(arguments.late * 1e9)
    seen: dict[str, Counter[str]] = {lie.__name__: Counter() for lie in LIES}
    with tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(arguments.histories, 1):
            print(f"lies: {path} ({number} of {len(arguments.histories)})", file=sys.stderr)
            histories.read(path)
            header, *lines, end = histories.read_lines(path)
            for lie in LIES:
                calls = Calls(lines, random.Random(arguments.seed))
                for place, changed in enumerate(itertools.islice(lie(lines, calls), arguments.each)):
                    planted = (arguments.keep or pathlib.Path(folder)) / f"{path.stem}-{lie.__name__}-{place}.jsonl"
                    write(planted, header, changed, end)
                    here = bool(run.judge(histories.read(planted), late).problems)
                    there = is_rejected(arguments.bench, planted)
                    result = {(True, True): "both", (False, False): "neither", (True, False): "only this judge"}.get(
                        (here, there), "only bench check"
                    )
                    seen[lie.__name__][result] += 1
                    if here != there:
                        print(f"{planted.name}: {result} rejects it")
                    if not arguments.keep:
                        planted.unlink()
    print(f"{'lie':16}  {'both':>5}  {'neither':>7}  {'only this judge':>15}  {'only bench check':>16}")
    for name, counts in seen.items():
        row = [counts[each] for each in ("both", "neither", "only this judge", "only bench check")]
        print(f"{name:16}  {row[0]:5}  {row[1]:7}  {row[2]:15}  {row[3]:16}")
    return [name for name, counts in seen.items() if not counts]


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("histories", nargs="+", type=pathlib.Path, help="files from --history that both judges accept")
    parser.add_argument("--bench", type=pathlib.Path, default=BENCH, help="the program interlock-bench")
    parser.add_argument("--each", type=int, default=2, help="lies of each kind in each history (default: 2)")
    parser.add_argument("--seed", type=int, default=1, help="the seed for the positions of the lies (default: 1)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep the changed histories here")
    parser.add_argument("--late", type=float, metavar="SECONDS", help="the same as for run.py")
    parsed = parser.parse_args(arguments)
    # Popen searches PATH for a program without a slash.
    parsed.bench = parsed.bench.resolve()
    if not parsed.bench.is_file():
        print(f"lies: {parsed.bench} is missing; run `make build`", file=sys.stderr)
        return UNAVAILABLE
    try:
        missing = compare(parsed)
    except (histories.HistoryError, OSError, ValueError) as error:
        print(f"lies: {error}", file=sys.stderr)
        return 1
    if missing:
        print(f"lies: not planted: {', '.join(missing)}; add histories with such calls", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

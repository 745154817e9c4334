#!/usr/bin/env python3
"""Generates the pages docs/internals/found*.md from found.tsv, the list of faults, and checks what the list names.

`make lint` fails if a page is stale, or if the list names a commit, test, configuration of Specs, seeded bug, file or
make target that does not exist. `--update` writes the pages.

A fault has six columns: its area, its kind, how it was found, its story, the commit that fixed it (or `open`), and what
would detect it again: `none`, or a comma-separated list of these:

    Suite.function      a test in Tests
    NAME                a configuration in Specs, or a seeded bug in Tests/Mutation
    --seed N            a world of `make simulate`
    make TARGET         a target that runs tests: test-…, or one of TARGETS
    PATH                any other file of the repository that would find it
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import prose

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path("docs/internals")
LIST = FOLDER / "found.tsv"
COLUMNS = ["area", "kind", "found by", "story", "fix", "again"]
MAX_STORY_WORDS = 20

#: Make targets that run tests, although their names do not start with `test`.
TARGETS = {
    "documents",
    "fuzz",
    "linearizability",
    "lint",
    "mutation-test",
    "soak",
    "specs",
    "specs-traces",
    "tsan",
    "verify",
}
#: The pages after found.md, their titles and the areas that each lists. A page has at most 2,500 words.
PAGES = {
    "found-locks": ("Faults of locks", ("locks",)),
    "found-limits": ("Faults of limits", ("limits",)),
    "found-breakers": ("Faults of breakers, fleets and Redis connections", ("breakers", "fleet", "redis")),
    "found-proxy": ("Faults of the proxy and the clients", ("proxy", "client")),
    "found-listeners": ("Faults of listeners", ("listeners",)),
    "found-operations": (
        "Faults of the tools for operators",
        ("command line", "configuration", "console", "telemetry"),
    ),
    "found-tests": ("Faults of the build and the tests", ("build", "tests")),
}
KINDS = {
    "two holders": "a lock has two holders, a job runs twice, or a holder relies on an ended lease",
    "falling fence": "a fence is not higher than all earlier ones",
    "lost lease": "a lease is lost while its holder keeps it",
    "stuck queue": "a waiter gets nothing although the lock or slot is free",
    "overrun limit": "more calls are made than the limit allows",
    "needless refusal": "a call is refused although there is room",
    "breaker": "a breaker opens, closes or stays as it should not",
    "lost call": "a call, response or report is lost",
    "crash/hang": "a process stops, or does not answer",
    "memory": "memory, Redis keys or connections grow without limit",
    "slow": "other callers are delayed, or work is wasted",
    "security": "a secret is exposed, or a caller can do more than it may",
    "incompatible": "other software, or another version, does not work with Interlock",
    "wrong answer": "any other wrong result",
    "wrong words": "a message or a page misleads",
    "wrong build": "a build or package is wrong",
    "missed fault": "a check passes although a promise is broken",
    "false alarm": "a check fails although no promise is broken",
    "flaky test": "a test fails occasionally",
}
FOUND_BY = {
    "reading": "by reading code or a change",
    "trying": "by experiments, such as running it with a fix removed",
    "reading or trying": "by one of these; the record does not say which",
    "measuring": "by a benchmark or abuse test",
    "simulation": "by a simulated world or a recorded run",
    "specification": "by TLC, the model checker of the specifications",
    "fuzzing": "by a fuzz target",
    "test": "by a failing test",
    "stranger": "by newcomers, third-party software or field reports",
    "not recorded": "the record does not say",
}


INDEX = """# Faults found

These pages list the {faults} faults recorded in Interlock's history, of which {open} are open. They show where faults
were, how each kind was found, and what would detect a fault again; for {unfound} of them, nothing is known that would.
The first reviews recorded only the worst faults. [Documented losses](../start/guarantees.md) are not faults.

{areas}
## Kinds, and how they were found

{counts}
{kinds}
{ways}
## The list

Each line of [`found.tsv`](found.tsv) is a fault. `python3 Tests/Lint/found.py --update` generates these pages from it.
`make lint` checks that the commits, tests, configurations and seeded bugs that it names exist.

- *fix*: the commit that fixed the fault, or `open` if none is recorded.
- *again*: what would detect the fault again: a test, a configuration of [`Specs`](../../Specs), a seeded bug of
  [`Tests/Mutation`](../../Tests/Mutation) that breaks the same rule, a file or make target that runs the case, or
  `none`.
"""


class Fault(NamedTuple):
    area: str
    kind: str
    found_by: str
    story: str
    fix: str
    again: str

    @property
    def finders(self) -> list[str]:
        return [] if self.again == "none" else [name.strip() for name in self.again.split(",")]


@dataclass(frozen=True)
class Names:
    """What the list may name."""

    commits: frozenset[str]
    tests: frozenset[str]
    configurations: frozenset[str]
    bugs: frozenset[str]
    targets: frozenset[str]
    files: frozenset[str] = field(default=frozenset())

    def has(self, name: str) -> bool:
        if name.startswith("make "):
            return name.removeprefix("make ") in self.targets
        if re.fullmatch(r"--seed \d+", name):
            return True
        known = self.files if "/" in name else self.tests if "." in name else self.configurations | self.bugs
        return name in known


def parsed(text: str) -> list[Fault]:
    header, *lines = text.rstrip("\n").split("\n")
    if header.split("\t") != COLUMNS:
        raise ValueError(f"{LIST}:1: expected the columns {', '.join(COLUMNS)}")
    for number, line in enumerate(lines, 2):
        if line.count("\t") != len(COLUMNS) - 1:
            raise ValueError(f"{LIST}:{number}: expected {len(COLUMNS)} columns, separated by tabs")
    return [Fault(*line.split("\t")) for line in lines]


def tests_of(source: str) -> Iterator[str]:
    """Yields the tests of a Swift file as Suite.function."""
    suite, is_test = "", False
    for line in source.splitlines():
        if declared := re.match(r"(?:@\w+(?:\(.*\))? +)*(?:\w+ )*(?:struct|class|actor|enum|extension) (\w+)", line):
            suite = declared[1]
        is_test = is_test or line.lstrip().startswith("@Test")
        if is_test and (function := re.search(r"\bfunc (\w+)", line)):
            yield f"{suite}.{function[1]}"
            is_test = False


def git(*words: str, text: str = "") -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, input=text, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def known_commits(names: Iterable[str]) -> frozenset[str]:
    """Returns the commits of these names that exist; all of them if the clone is shallow."""
    wanted = sorted(set(names))
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        return frozenset(wanted)
    kinds = git("cat-file", "--batch-check=%(objecttype)", text="\n".join(wanted)).splitlines()
    return frozenset(name for name, kind in zip(wanted, kinds, strict=True) if kind == "commit")


def read(path: Path | str) -> str:
    """Returns the text of a file, or "" if it is deleted and the deletion is not staged yet."""
    file = ROOT / path
    return file.read_text() if file.is_file() else ""


def repository(faults: list[Fault]) -> Names:
    files = git("ls-files").splitlines()
    swift = [path for path in files if path.startswith("Tests/") and path.endswith(".swift")]
    mutation = [path for path in files if path.startswith("Tests/Mutation/")]
    return Names(
        known_commits(fault.fix for fault in faults if fault.fix != "open"),
        frozenset(test for path in swift for test in tests_of(read(path))),
        frozenset(Path(path).stem for path in files if path.startswith("Specs/") and path.endswith(".cfg")),
        frozenset(name for path in mutation for name in re.findall(r'\bBug\(\s*"([\w-]+)"', read(path))),
        frozenset(
            name
            for name in re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE)
            if name.startswith("test") or name in TARGETS
        ),
        frozenset(files),
    )


def problems(faults: list[Fault], names: Names) -> Iterator[str]:
    areas = {area for _, areas in PAGES.values() for area in areas}
    rules, stories = prose.banned(), Counter(fault.story for fault in faults)
    for number, fault in enumerate(faults, 2):
        place = f"{LIST}:{number}"
        for title, value, allowed in (
            ("area", fault.area, areas),
            ("kind", fault.kind, KINDS),
            ("way of finding", fault.found_by, FOUND_BY),
        ):
            if value not in allowed:
                yield f'{place}: "{value}" is no {title}; one of {", ".join(sorted(allowed))}'
        if (words := len(fault.story.split())) > MAX_STORY_WORDS:
            yield f"{place}: the story has {words} words, more than {MAX_STORY_WORDS}"
        if "|" in fault.story or not fault.story.endswith("."):
            yield f"{place}: the story must be a sentence that ends with a period and contains no vertical bar"
        if stories[fault.story] > 1:
            yield f"{place}: the story is listed twice"
        for _, problem in prose.phrases([fault.story], rules):
            yield f"{place}: {problem}"
        if fault.fix != "open" and (not re.fullmatch(r"[0-9a-f]{8}", fault.fix) or fault.fix not in names.commits):
            yield f'{place}: the fix "{fault.fix}" is neither "open" nor the eight-digit hash of a commit'
        for name in fault.finders:
            if not names.has(name):
                yield f"{place}: {name} does not exist; name what finds the fault again, or none"


def row(*cells: object) -> str:
    return "|" + "|".join(str(cell) for cell in cells) + "|"


def table(head: list[str], rows: Iterable[tuple[object, ...]], numbers: int = 0) -> list[str]:
    """Returns the lines of a table whose last `numbers` columns are aligned to the right."""
    marks = ["---"] * (len(head) - numbers) + ["---:"] * numbers
    return [row(*head), row(*marks), *(row(*cells) for cells in rows), ""]


def code(text: str) -> str:
    return f"`{text}`"


def index(faults: list[Fault]) -> str:
    """Returns found.md: what the pages are for, the counts, and where each area is listed."""
    cells = Counter((fault.kind, fault.found_by) for fault in faults)
    ways = [way for way in FOUND_BY if any(fault.found_by == way for fault in faults)]
    kinds = [kind for kind in KINDS if any(fault.kind == kind for fault in faults)]
    counts: list[tuple[object, ...]] = [
        (kind, *(cells[kind, way] or "" for way in ways), sum(cells[kind, way] for way in ways)) for kind in kinds
    ]
    sums = [sum(cells[kind, way] for kind in kinds) for way in ways]
    areas = [
        (
            f"[{area}]({page}.md#{area.replace(' ', '-')})",
            sum(fault.area == area for fault in faults),
            sum(fault.area == area and fault.fix == "open" for fault in faults),
        )
        for page, (_, listed) in PAGES.items()
        for area in listed
    ]
    return INDEX.format(
        faults=len(faults),
        open=sum(fault.fix == "open" for fault in faults),
        unfound=sum(not fault.finders for fault in faults),
        areas="\n".join(table(["area", "faults", "open"], areas, numbers=2)),
        counts="\n".join(table(["kind", *ways, "all"], [*counts, ("all", *sums, len(faults))], numbers=len(ways) + 1)),
        kinds="\n".join(table(["kind", "meaning"], [(kind, KINDS[kind]) for kind in kinds])),
        ways="\n".join(table(["found by", "meaning"], [(way, FOUND_BY[way]) for way in ways])),
    )


def listing(title: str, areas: tuple[str, ...], faults: list[Fault]) -> str:
    lines = [f"# {title}", "", "[What the columns mean](found.md). Open faults come last.", ""]
    for area in areas:
        listed = sorted((fault for fault in faults if fault.area == area), key=lambda fault: fault.fix == "open")
        rows = [
            (fault.kind, fault.found_by, fault.story, fault.fix, ", ".join(map(code, fault.finders)) or "none")
            for fault in listed
        ]
        lines += [f"## {area.capitalize()}", "", *table(["kind", "found by", "story", "fix", "again"], rows)]
    return "\n".join(lines).rstrip("\n") + "\n"


def pages(faults: list[Fault]) -> dict[Path, str]:
    listings = {FOLDER / f"{page}.md": listing(title, areas, faults) for page, (title, areas) in PAGES.items()}
    return {FOLDER / "found.md": index(faults)} | listings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the pages")
    options = parser.parse_args()
    try:
        faults = parsed(read(LIST))
    except ValueError as error:
        print(f"found: {error}")
        return 1
    found = list(problems(faults, repository(faults)))
    for path, text in pages(faults).items():
        if options.update:
            (ROOT / path).write_text(text)
        elif read(path) != text:
            found.append(f"{path} is stale; run Tests/Lint/found.py --update")
    print("\n".join(f"found: {problem}" for problem in found) or f"found: {len(faults)} faults, no finding")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

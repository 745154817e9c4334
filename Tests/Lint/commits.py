#!/usr/bin/env python3
"""Checks commit messages: `make lint-commits` runs it, for the commits since the upstream branch.

subject  `area: imperative summary`, at most 72 columns, without a period at the end.
body     A blank line, then at least one line that says why, each at most 100 columns.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_SUBJECT_COLUMNS, MAX_BODY_COLUMNS = 72, 100
SUBJECT = re.compile(r"[a-z0-9][\w./, -]*: (\w[\w'-]*)")
#: Imperatives that end like a past tense, a participle or a third person.
IMPERATIVE = {
    "embed",
    "feed",
    "need",
    "speed",
    "seed",
    "shed",
    "bring",
    "ring",
    "process",
    "pass",
    "press",
    "focus",
    "address",
}


def problems(message: str) -> Iterator[str]:
    subject, *body = message.rstrip().split("\n")
    match = SUBJECT.match(subject)
    if not match:
        yield "the subject is not `area: imperative summary`"
    elif re.search(r"(?:ed|ing|[^s]s)$", word := match[1].lower()) and word not in IMPERATIVE:
        yield f'the summary opens with "{match[1]}"; write the imperative'
    if len(subject) > MAX_SUBJECT_COLUMNS:
        yield f"the subject has {len(subject)} columns, more than {MAX_SUBJECT_COLUMNS}"
    if subject.endswith("."):
        yield "the subject ends with a period"
    if not body or body[0] or not "".join(body).strip():
        yield "there is no body, after a blank line, that says why"
    if any(len(line) > MAX_BODY_COLUMNS and " " in line for line in body):
        yield f"a line of the body has more than {MAX_BODY_COLUMNS} columns"


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout


def main() -> int:
    commits = sys.argv[1] if len(sys.argv) > 1 else "@{upstream}..HEAD"
    count = found = 0
    for entry in git("log", "--no-merges", "--format=%h%x00%B%x01", commits).split("\x01"):
        if entry.strip():
            name, _, message = entry.strip().partition("\0")
            count += 1
            for problem in problems(message):
                found += 1
                print(f"commits: {name} {message.splitlines()[0]}: {problem}")
    if not found:
        print(f"commits: {count} commits, no finding (subject, body)")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks the style of comments in Swift files: `make lint` runs it.

opening  A doc comment opens with its subject, a noun phrase or a verb: never with What, Who, It, Of and the like.
width    A line of a comment has at most 120 columns, unless it is a single word, such as a URL.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREES = ("Sources", "Tests", "Benchmarks")
MAX_COLUMNS = 120
OPENING = re.compile(r"(What|Who|Whoever|Whose|It|Its|Those|Of|So|That which|When)\b")
FIELD = re.compile(r"- (?:Parameter \w+|Returns|Throws|\w+): ?")


def problems(text: str) -> Iterator[tuple[int, str]]:
    """Yields the number of each bad line, with its problem."""
    is_inside = False
    for number, line in enumerate(text.splitlines(), 1):
        comment = line.strip()
        if comment.startswith("//") and len(line) > MAX_COLUMNS and " " in comment.lstrip("/ "):
            yield number, f"the line has {len(line)} columns, more than {MAX_COLUMNS}"
        is_doc = comment.startswith("///")
        words = comment.removeprefix("///").strip()
        if is_doc and (not is_inside or FIELD.match(words)) and (found := OPENING.match(FIELD.sub("", words, count=1))):
            yield number, f'the comment opens with "{found[0]}"; start with the subject'
        is_inside = is_doc


def main() -> int:
    listed = subprocess.run(["git", "ls-files", *TREES], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    paths = [path for path in listed.stdout.splitlines() if path.endswith(".swift") and not path.endswith(".pb.swift")]
    count = 0
    for path in paths:
        for number, problem in problems((ROOT / path).read_text()):
            print(f"comments: {path}:{number}: {problem}")
            count += 1
    if not count:
        print(f"comments: {len(paths)} Swift files, no finding (opening, width)")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())

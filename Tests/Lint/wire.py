#!/usr/bin/env python3
"""Compares Tests/Lint/wire.txt, the names that other programs depend on, with the code.

The list has commands, options, routes, fields, error codes, exit codes, log event IDs, metrics and configuration keys.
`--update` rewrites it: check git's diff. A name that is gone breaks its users, so keep it for one version and describe
the change in CHANGELOG.md.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path("Tests/Lint/wire.txt")
RAW_VALUE = r'case \w+ = "([\w.]+)"'

#: The kind of name, the files below `Sources` that declare such names, and a pattern for them.
DECLARED = (
    ("command", "**/RESPCommandTable.swift", r'entry\(\s*"([A-Z.]+)'),
    ("option", "**/RESPOptions.swift", r'case \w+ = "([A-Z]+)"'),
    ("route", "**/openapi.yaml", r"(?m)^  (/\S*):$"),
    ("parameter", "**/openapi.yaml", r"name: ([\w-]+), in: (?:query|header|path)"),
    ("error", "**/InterlockError.swift", r'static let \w+ = Self\(rawValue: "(\w+)"\)'),
    ("exit", "**/ExitStatus.swift", r"(?m)^ +case [.\w, ]+: (\d+)$"),
    ("log", "**/*LogEvent.swift", RAW_VALUE),
    ("log", "RedisClient/LoggedEvent.swift", RAW_VALUE),
    ("metric", "**/*.swift", r'"(interlock_[a-z_]+)"'),
    ("label", "**/*Metrics.swift", r'\("((?!process_|interlock_)[a-z_]+)", '),
    ("key", "*/**/*.swift", r'\.(?:read\w*|value|required\w*)\(\s*"([a-z_]+)"'),
)
#: Each kind has at least this many names. Fewer suggest that the form of the code has changed.
MINIMUM = 9


def problem_codes(text: str) -> Iterator[str]:
    """Yields the codes of the HTTP API: raw values, or the names of cases without one."""
    body = text.partition("enum Code")[2].partition("\n    }")[0]
    for name, raw in re.findall(r'(?m)^ +case `?(\w+)`?(?: = "(\w+)")?$', body):
        yield raw or name


def properties(contract: str) -> Iterator[str]:
    """Yields the names of the properties of all schemas."""
    depths: list[int] = []
    for line in contract.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        while depths and depth <= depths[-1]:
            depths.pop()
        name = re.match(r" *([\w-]+):", line)
        if depths and name and depth == depths[-1] + 2:
            yield name[1]
        if line.strip() == "properties:":
            depths.append(depth)


def names(root: Path) -> list[str]:
    """Returns each name after its kind, sorted."""
    sources = root / "Sources"
    found = set()
    for kind, pattern, declaration in DECLARED:
        for path in sources.glob(pattern):
            found |= {f"{kind} {name}" for name in re.findall(declaration, path.read_text())}
    for path in sources.glob("**/HTTPProblem.swift"):
        found |= {f"code {name}" for name in problem_codes(path.read_text())}
    for path in sources.glob("**/openapi.yaml"):
        found |= {f"field {name}" for name in properties(path.read_text())}
    return sorted(found)


def sparse(found: list[str]) -> Iterator[str]:
    """Yields the kinds with suspiciously few names."""
    kinds = [name.partition(" ")[0] for name in found]
    for kind in sorted({kind for kind, _, _ in DECLARED} | {"code", "field"}):
        if (count := kinds.count(kind)) < MINIMUM:
            yield f"only {count} names of kind {kind} found; update this check if the code's form has changed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help=f"write {LIST}")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to read, such as a clone of an older version")
    options = parser.parse_args()
    now = names(options.root)
    if options.update:
        (ROOT / LIST).write_text("\n".join(now) + "\n")
    before = (ROOT / LIST).read_text().splitlines()
    findings = [f"gone: {name}" for name in before if name not in now]
    findings += [f"new: {name}" for name in now if name not in before]
    if findings:
        findings.append("if this is intended, run Tests/Lint/wire.py --update and add the change to CHANGELOG.md")
    findings += sparse(now)
    for finding in findings:
        print(f"wire: {finding}")
    if not findings:
        print(f"wire: {len(now)} names that other programs depend on, as listed")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())

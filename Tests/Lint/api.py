#!/usr/bin/env python3
"""Compares docs/swift/api.txt, the list of the libraries' public declarations, with the code.

The list has one line for each public declaration of Interlock, its exports, and InterlockClient, by file and type.
It includes raw values, because files and other programs contain them. `--update` rewrites the list: review the diff,
and describe in CHANGELOG.md what programs must change. Each declaration needs a `///` comment.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import swift

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "docs/swift/api.txt"
LIBRARIES = ("Interlock", "InterlockCore", "InterlockClient")
KINDS = "actor|case|class|enum|extension|func|init|let|protocol|struct|subscript|typealias|var"
DECLARATION = re.compile(rf"(?:@\w+(?:\([^)]*\))? )*(?:[a-z]+(?:\(\w+\))? )*(?:{KINDS})\b")
#: A constant whose value other programs may have seen: a raw value, or a literal.
CONSTANT = re.compile(r"\bstatic let \w+ = (?:\w+\(rawValue: )?\"")
NAMED = re.compile(r"\b(?:actor|class|enum|extension|protocol|struct)\s+([\w.]+)")


@dataclass(frozen=True)
class Declaration:
    text: str
    """The declaration, preceded by the types that contain it."""
    line: int
    is_documented: bool


def declarations(text: str) -> Iterator[Declaration]:
    """Yields the public declarations of one file."""
    lines = swift.code(text).split("\n")
    source_lines = text.split("\n")
    owners: list[tuple[int, str, str]] = []
    depth = 0
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        while owners and depth < owners[-1][0]:
            owners.pop()
        is_case = line.startswith("case ") and bool(owners) and bool(owners[-1][2]) and depth == owners[-1][0]
        is_public = bool(re.match(r"(?:@\w+(?:\([^)]*\))? )*(?:nonisolated |final )*public\b", line))
        is_public = is_public and " import " not in f" {line} "
        is_type = bool(re.search(rf"^(?:[\w@() ]+ )?(?:{'actor|class|enum|extension|protocol|struct'})\b", line))
        head = line
        first = at
        if is_public or is_type:
            while "{" not in head and head.count("(") > head.count(")") and at + 1 < len(lines):
                at += 1
                head += " " + lines[at].strip()
        signature = re.sub(r"\s+", " ", head.split(" {")[0].split(" = ")[0] if "(" not in head else head.split(" {")[0])
        signature = signature.replace("( ", "(").replace(" )", ")").strip()
        if is_case and owners[-1][2] == "String":
            signature = "case " + with_raw_values(source_lines[first].strip().removeprefix("case "))
        elif is_public and CONSTANT.search(source_lines[first]):
            signature = source_lines[first].strip()
        if (is_public and DECLARATION.match(signature)) or is_case:
            path = " / ".join([*(owner for _, owner, _ in owners), signature])
            yield Declaration(path, first + 1, is_documented(source_lines, first) or signature.startswith("extension"))
        for index in range(first, at + 1):
            depth += lines[index].count("{") - lines[index].count("}")
        named = NAMED.search(signature) if is_type or is_public else None
        if named and "{" in head and not head.rstrip().endswith("}"):
            owners.append((depth, named[1], raw_type(signature) if is_public else ""))
        at += 1


def is_documented(lines: list[str], at: int) -> bool:
    """Returns whether a documentation comment precedes this line or its attributes."""
    before = at - 1
    while before >= 0 and lines[before].strip().startswith("@"):
        before -= 1
    return before >= 0 and lines[before].strip().startswith("///")


def raw_type(signature: str) -> str:
    """Returns an enum's raw type, or `enum` if it has none; empty for other types."""
    found = re.search(r"\benum \w+(?:<[^>]*>)?(?:: (\w+))?", signature)
    return (found[1] or "enum") if found else ""


def with_raw_values(cases: str) -> str:
    """Adds implicit raw values to cases: `a, b = "c"` becomes `a = "a", b = "c"`."""
    return ", ".join(case if " = " in case else f'{case} = "{case}"' for case in cases.split(", "))


def listing(undocumented: list[str]) -> str:
    """Returns the list, and appends the locations of declarations without a comment to `undocumented`."""
    found = []
    for library in LIBRARIES:
        for path in sorted((ROOT / "Sources" / library).rglob("*.swift")):
            public = sorted(declarations(path.read_text()), key=lambda declaration: declaration.text)
            if public:
                lines = "\n".join(declaration.text for declaration in public)
                found.append(f"# {library}/{path.name}\n{lines}\n")
            undocumented += [
                f"{path.relative_to(ROOT)}:{declaration.line}: {declaration.text}"
                for declaration in public
                if not declaration.is_documented
            ]
    return "\n".join(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write docs/swift/api.txt")
    options = parser.parse_args()
    undocumented: list[str] = []
    now = listing(undocumented)
    if options.update:
        LIST.write_text(now)
    before = LIST.read_text() if LIST.exists() else ""
    removed = sorted(set(before.splitlines()) - set(now.splitlines()))
    added = sorted(set(now.splitlines()) - set(before.splitlines()))
    for line in removed:
        print(f"api: removed: {line}")
    for line in added:
        print(f"api: added: {line}")
    for location in undocumented:
        print(f"api: without a comment: {location}")
    if undocumented:
        print("api: describe each of these in a /// comment: units, result, thrown errors")
    if removed or added:
        print("api: if this is intended, run Tests/Lint/api.py --update and add the change to CHANGELOG.md")
    if removed or added or undocumented:
        return 1
    count = sum(bool(line) and not line.startswith("#") for line in now.splitlines())
    print(f"api: {count} public declarations, as listed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

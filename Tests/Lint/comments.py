#!/usr/bin/env python3
"""Checks the comments in Swift files: `make lint` runs it.

opening     A doc comment opens with its subject, a noun phrase or a verb: never with What, Who, It, Of and the like.
capital     A comment does not start with a lowercase word, except for a product's name or the marks of a snippet.
parameters  `- Parameter` names a parameter, external or internal, of the declaration that follows.
members     `Type.member` in a comment or in docs/architecture.md names a member that a file with this type declares.
names       `SomeName` and `someName` in docs/architecture.md occur in Swift code, or are parts of paths.
width       A line of a comment has at most 120 columns, unless it is a single word, such as a URL.
"""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import swift

ROOT = Path(__file__).resolve().parents[2]
TREES = ("Sources", "Tests", "Benchmarks")
MAX_COLUMNS = 120
OPENING = re.compile(r"(What|Who|Whoever|Whose|It|Its|Those|Of|So|That which|When)\b")
FIELD = re.compile(r"- (?:Parameter \w+|Returns|Throws|\w+): ?")
PARAMETER = re.compile(r"- Parameter (\w+):")
LISTED_PARAMETER = re.compile(r"\s{2,}- (\w+):")
LOWERCASE = re.compile(
    r"(?!(?:end|errstr|libdispatch|libfaketime|logfmt|valkey-glide|snippet: [\w-]+)\b)[a-z][a-z-]*[,.:;]?(?=\s|$)"
)
ATTRIBUTE = re.compile(r"\s*@\w+(?:\([^()]*\))?\s*")
LABELS = re.compile(r"(?:[(,<]|^)\s*(?:@\w+(?:\([^()]*\))?\s+)*`?(\w+)`?(?:\s+`?(\w+)`?)?\s*:", re.MULTILINE)
MEMBER = re.compile(r"`(?:\w+\.)*([A-Z]\w*)\.(?!swift`)(\w+)(?:\([\w:]*\))?`")
NAME = re.compile(r"`((?:[A-Z]\w*[a-z]|[a-z]\w*[A-Z])\w*)`")
WORD = re.compile(r"[A-Za-z]\w+")
TYPE_NAME = re.compile(r"\b(?:actor|class|enum|extension|protocol|struct)\s+([\w.]+)")
MEMBER_NAME = re.compile(r"\b(?:func|let|var|case|struct|enum|class|actor|protocol|typealias)\s+`?(\w+)`?")
CASES = re.compile(r"\bcase\s+([^:\n{]+)")
ARCHITECTURE = "docs/architecture.md"


class Members:
    """The members of each type, as far as the files that declare or extend it show."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.of_type: dict[str, set[str]] = defaultdict(set)
        self.words: set[str] = set()
        for text in texts:
            code = swift.code(text)
            self.words |= set(WORD.findall(code))
            members = set(MEMBER_NAME.findall(code)) | {"init"}
            for cases in CASES.findall(code):
                members |= set(re.findall(r"\w+", cases))
            for name in TYPE_NAME.findall(code):
                self.of_type[name.split(".")[-1]] |= members

    def missing(self, text: str, is_prose: bool = False) -> Iterator[tuple[int, str]]:
        """Yields the lines that name a member which its type does not have. Other modules' types are not checked."""
        for number, line in enumerate(text.splitlines(), 1):
            if not is_prose and not line.lstrip().startswith("//"):
                continue
            for owner, member in MEMBER.findall(line):
                if member not in self.of_type.get(owner, {member}):
                    yield number, f"`{owner}` has no member `{member}`"

    def unknown(self, text: str, paths: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yields the lines of a page that name an identifier which neither the code nor a path has."""
        known = self.words.union(*(WORD.findall(path) for path in paths))
        for number, line in enumerate(text.splitlines(), 1):
            for name in NAME.findall(line):
                if name not in known:
                    yield number, f"`{name}` does not exist"


def problems(text: str) -> Iterator[tuple[int, str]]:
    """Yields the number of each bad line, with its problem."""
    is_inside = False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        comment = line.strip()
        if comment.startswith("//") and len(line) > MAX_COLUMNS and " " in comment.lstrip("/ "):
            yield number, f"the line has {len(line)} columns, more than {MAX_COLUMNS}"
        is_doc = comment.startswith("///")
        words = comment.removeprefix("///").strip()
        if is_doc and (not is_inside or FIELD.match(words)) and (found := OPENING.match(FIELD.sub("", words, count=1))):
            yield number, f'the comment opens with "{found[0]}"; start with the subject'
        if _starts_block(lines, number - 1) and LOWERCASE.match(comment.lstrip("/").strip()):
            yield number, "the comment starts with a lowercase word"
        is_inside = is_doc
    yield from _stale_parameters(lines)


def _starts_block(lines: list[str], at: int) -> bool:
    """Returns whether a comment begins on this line, without another above it."""
    if not lines[at].lstrip().startswith("//"):
        return False
    return at == 0 or not lines[at - 1].lstrip().startswith("//")


def _stale_parameters(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yields the described parameters that the declaration below their comment does not have."""
    described: dict[int, str] = {}
    is_list = False
    for at, line in enumerate(lines):
        if not line.lstrip().startswith("///"):
            if described:
                names = _parameters("\n".join(lines[at:]))
                for number, name in described.items():
                    if name not in names:
                        yield number, f"the declaration has no parameter `{name}`"
            described, is_list = {}, False
            continue
        text = line.lstrip().removeprefix("///")
        if found := PARAMETER.match(text.strip()):
            described[at + 1] = found[1]
        elif text.strip().startswith("- "):
            if is_list and (found := LISTED_PARAMETER.match(text)):
                described[at + 1] = found[1]
            else:
                is_list = text.strip() == "- Parameters:"


def _parameters(text: str) -> set[str]:
    """Returns the external and internal names in the first parentheses of a declaration, attributes apart."""
    text = swift.code(text[:6000])
    while found := ATTRIBUTE.match(text):
        text = text[found.end() :]
    start = text.find("(")
    depth, end = 0, start
    for end in range(max(start, 0), len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            break
    return {name for pair in LABELS.findall(text[start:end]) for name in pair if name}


def main() -> int:
    listed = subprocess.run(["git", "ls-files", *TREES], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    paths = [path for path in listed.stdout.splitlines() if path.endswith(".swift") and not path.endswith(".pb.swift")]
    texts = {path: (ROOT / path).read_text() for path in paths}
    members = Members(texts.values())
    architecture = (ROOT / ARCHITECTURE).read_text()
    count = 0
    for path, found in (
        *((path, (*problems(text), *members.missing(text))) for path, text in texts.items()),
        (ARCHITECTURE, (*members.missing(architecture, is_prose=True), *members.unknown(architecture, paths))),
    ):
        for number, problem in found:
            print(f"comments: {path}:{number}: {problem}")
            count += 1
    if not count:
        print(f"comments: {len(paths)} Swift files, no finding (opening, capital, parameters, members, names, width)")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks the prose of the documents, comments and messages: `make lint` runs it.

width      A line of Markdown has at most 160 columns, except for code, tables and lines with a long URL.
paragraph  A paragraph of Markdown has at most five lines.
length     A page has at most 2,500 words, code and tables included.
           The changelog keeps its entries: only its width and spelling are checked.
phrase     Documents, comments and strings of the sources have no phrase of banned.txt.
tools      Documents and comments pass proselint, except for checks that proselint.json disables, and codespell,
           except for the words of spelling.txt.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
MAX_COLUMNS, MAX_PARAGRAPH_LINES, MAX_WORDS = 160, 5, 2_500
CODE_FILES = {".swift": "//", ".lua": "--", ".js": "//", ".py": "#", ".sh": "#"}
#: Generated code, and inputs that are wrong on purpose.
EXCLUDED = re.compile(r"\.pb\.swift$|Fuzzing/Corpus/|Tests/Lint/(prose|comments|test_\w+)\.py$|banned\.txt$")

INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
TARGET = re.compile(r"(?<=\])\([^)\s]*(?: \"[^\"]*\")?\)|<?https?://[^\s)>]+>?")
ITEM = re.compile(r" *(?:[-*+]|\d+\.) ")
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
INTERPOLATION = re.compile(r"\\\((?:[^()]|\([^()]*\))*\)")


def prose_of_markdown(text: str) -> list[str]:
    """Returns the lines of a page without code, tables, comments and addresses. Lines keep their numbers."""
    lines, fence, is_comment = [], "", False
    for line in text.splitlines():
        mark = re.match(r" *(```+|~~~+)", line)
        if fence or mark:
            if mark and (not fence or mark[1].startswith(fence)):
                fence = "" if fence else mark[1]
            lines.append("")
            continue
        is_comment = is_comment or "<!--" in line
        is_excluded = is_comment or line.lstrip().startswith(("|", "<"))
        is_comment = is_comment and "-->" not in line
        lines.append("" if is_excluded else TARGET.sub("", INLINE_CODE.sub("N", line)))
    return lines


def prose_of_code(text: str, mark: str) -> list[str]:
    """Returns the comments of a source file. Lines keep their numbers; code is an empty line."""
    comments = [re.match(rf"\s*{re.escape(mark)}+!?:?(.*)", line) for line in text.splitlines()]
    return [INLINE_CODE.sub("N", comment[1]).strip() if comment else "" for comment in comments]


def strings_of_code(text: str) -> list[str]:
    """Returns each line's string literals of a Swift file, without interpolations and single words."""
    return [
        " ".join(INTERPOLATION.sub("N", part) for part in STRING.findall(line) if " " in part)
        for line in text.splitlines()
    ]


def shape(text: str) -> Iterator[tuple[int, str]]:
    """Yields lines and paragraphs that are too long, with their line numbers."""
    length = 0
    for number, (line, prose) in enumerate(zip(text.splitlines(), prose_of_markdown(text), strict=True), 1):
        if prose and len(line) > MAX_COLUMNS and len(prose) > MAX_COLUMNS:
            yield number, f"the line has {len(line)} columns, more than {MAX_COLUMNS}"
        is_inside = bool(prose.strip()) and not prose.startswith("#")
        length = (1 if ITEM.match(prose) else length + 1) if is_inside else 0
        if length == MAX_PARAGRAPH_LINES + 1:
            yield number, f"the paragraph has more than {MAX_PARAGRAPH_LINES} lines"


def banned() -> list[tuple[re.Pattern[str], str]]:
    rules = []
    for line in (HERE / "banned.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, advice = line.partition(" => ")
            rules.append((re.compile(pattern.strip(), re.IGNORECASE), advice.strip()))
    return rules


def phrases(lines: list[str], rules: list[tuple[re.Pattern[str], str]]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        for pattern, advice in rules:
            if line and (match := pattern.search(line)):
                yield number, f'"{match[0]}": write {advice}'


def found_by_tools(pages: dict[str, list[str]]) -> Iterator[str]:
    """Yields the findings of proselint and codespell for all pages."""
    tools: list[list[str | Path]] = [
        ["proselint", "check", "--config", HERE / "proselint.json"],
        ["codespell", "--ignore-words", HERE / "spelling.txt"],
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in pages.items():
            copy = Path(folder, name + ".md")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text("\n".join(lines) + "\n")
        for tool, *options in tools:
            command = [Path(sys.executable).with_name(str(tool)), *options, folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            matches = re.findall(rf"^{re.escape(folder)}/(.*)\.md:(\d+): ?(?:\d+: )?(.*)", done.stdout, re.MULTILINE)
            yield from (f"{page}:{line}: {finding}" for page, line, finding in matches)
            if done.returncode and not matches:
                yield f"{tool} failed: {done.stdout.strip()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-tools", action="store_true", help="do not run proselint and codespell")
    options = parser.parse_args()
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    rules, pages, found = banned(), {}, []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if EXCLUDED.search(name) or not path.is_file() or (path.suffix != ".md" and path.suffix not in CODE_FILES):
            continue
        text = path.read_text()
        if path.suffix == ".md":
            pages[name] = prose_of_markdown(text)
            problems = list(shape(text))
            if name == "CHANGELOG.md":
                # Entries of former versions are never changed.
                problems = [(number, problem) for number, problem in problems if "columns" in problem]
            else:
                problems += phrases(pages[name], rules)
                if (words := len(text.split())) > MAX_WORDS:
                    problems.append((1, f"the page has {words:,} words, more than {MAX_WORDS:,}"))
        else:
            pages[name] = prose_of_code(text, CODE_FILES[path.suffix])
            strings = strings_of_code(text) if path.suffix == ".swift" and name.startswith("Sources/") else []
            problems = [*phrases(pages[name], rules), *phrases(strings, rules)]
        found += [f"{name}:{number}: {problem}" for number, problem in problems]
    if not options.without_tools:
        found += found_by_tools(pages)
    print("\n".join(f"prose: {problem}" for problem in found) or f"prose: {len(pages)} files, no finding")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

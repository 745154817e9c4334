#!/usr/bin/env python3
"""Checks that each relative link between the documents leads to a file, and each anchor to one of its headings."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md")

FENCED_CODE = re.compile(r"^ *(```+|~~~+).*?^ *\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
INLINE_LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: +\"[^\"]*\")?\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]: *<?([^\s>]+)>?", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*?)(?: +#+)? *$", re.MULTILINE)
HTML_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
SCHEME = re.compile(r"[a-z][a-z+.-]*:")


def anchors(text: str) -> set[str]:
    """Returns GitHub's anchors of the headings. A repeated heading gets -1 the second time."""
    text = FENCED_CODE.sub("", text)
    seen: Counter[str] = Counter()
    found = set(HTML_ANCHOR.findall(text))
    for title in HEADING.findall(text):
        label = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", label.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def links(text: str) -> Iterator[str]:
    """Yields the relative links of a document, except for examples in code."""
    text = CODE.sub("", FENCED_CODE.sub("", text))
    for pattern in (INLINE_LINK, REFERENCE):
        for target in pattern.findall(text):
            if not SCHEME.match(target):
                yield target


def broken_links(page: Path) -> Iterator[str]:
    for target in links(page.read_text()):
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        if not path.exists():
            yield f"{target}: no such file"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
            yield f"{target}: no such heading"


def lost_headings(moves: str) -> Iterator[str]:
    """Yields the moved headings whose new location does not exist, from lines with an old and a new anchor."""
    for line in moves.splitlines():
        if line.startswith("#"):
            continue
        old, _, new = line.partition("\t")
        name, _, anchor = new.partition("#")
        path = ROOT / name
        if not path.is_file() or anchor not in anchors(path.read_text()):
            yield f"headings.tsv: {old} moved to {new or 'nowhere'}, which does not exist"


def main(pages: Iterable[Path]) -> int:
    count, broken = 0, []
    for page in pages:
        count += sum(1 for _ in links(page.read_text()))
        broken += [f"{page.relative_to(ROOT)}: {reason}" for reason in broken_links(page)]
    broken += lost_headings((Path(__file__).parent / "headings.tsv").read_text())
    print("\n".join(broken) if broken else f"links: {count} relative links, no finding")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sorted(page for pattern in DOCUMENTS for page in ROOT.glob(pattern))))

#!/usr/bin/env python3
"""Checks the layout of the Swift files: `make lint` runs it.

case     No two paths differ in case only.
circles  Inside a target, sibling folders depend one way. The files right in a target's own folder are its top layer:
         they may name types of its folders, its folders may not name theirs.
homes    A type of Sources that two or more other files there name is in the file of its name. Files of commands,
         scripts and the like, whose names say so, keep theirs together, and so does generated code.
names    No two top-level types have one name, in whichever targets they are.
length   No file is longer than 700 lines.
"""

import argparse
import re
import statistics
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import swift

TREES = ("Sources", "Tests", "Benchmarks")
LONGEST_FILE = 700
SHORT_FILE = 40
CHECKS = ("case", "circles", "homes", "names", "length")
COLLECTION = re.compile(r"(Calls|Commands|Counters|Errors|Histograms|Messages|Replies|Routes|Scripts)(\+\w+)?$|\.pb$")
LOOSE = "."
"""The files directly in a folder, without its sub-folders."""

Edges = dict[tuple[str, str], list[str]]
"""The dependencies between folders, with the locations that cause them."""


@dataclass(frozen=True)
class Target:
    name: str
    path: PurePosixPath


@dataclass(frozen=True)
class Circle:
    folder: str
    members: tuple[str, ...]
    causes: tuple[tuple[str, ...], ...]
    """The locations where each member names the next one."""

    def describe(self, shown: int) -> str:
        round_trip = [*self.members, self.members[0]]
        lines = [f"{self.folder}: " + " → ".join(self._title(member) for member in round_trip)]
        for here, there, places in zip(round_trip, round_trip[1:], self.causes, strict=False):
            if places:
                lines.append(f"  {self._title(here)} → {self._title(there)}, {len(places)} times")
            else:
                lines.append(f"  {self._title(here)} are above {self._title(there)}, like the target's own files")
            lines += [f"    {place}" for place in places[:shown]]
            if len(places) > shown:
                lines.append(f"    … and {len(places) - shown} more")
        return "\n".join(lines)

    def _title(self, member: str) -> str:
        return f"{PurePosixPath(self.folder).name}/*.swift" if member == LOOSE else member


class Tree:
    """The Swift files of the package, each read once."""

    def __init__(self, targets: Iterable[Target], files: Mapping[str, str]) -> None:
        self.targets = list(targets)
        modules = frozenset(target.name for target in self.targets)
        self.sources = {PurePosixPath(path): swift.read(text, modules) for path, text in sorted(files.items())}

    def files_of(self, target: Target) -> dict[PurePosixPath, swift.Source]:
        return {path: source for path, source in self.sources.items() if path.is_relative_to(target.path)}

    def circles(self) -> list[Circle]:
        return [circle for target in self.targets for circle in self._circles_of(target)]

    def _circles_of(self, target: Target) -> Iterator[Circle]:
        files = self.files_of(target)
        edges = self._edges(files)
        for folder in sorted(
            {parent for path in files for parent in path.parents if parent.is_relative_to(target.path)}
        ):
            level = _at_level(folder, edges)
            if folder == target.path:
                yield from _upward(folder, level)
                level = {edge: places for edge, places in level.items() if LOOSE not in edge}
            for members in shortest_circles(level):
                pairs = zip(members, [*members[1:], members[0]], strict=True)
                yield Circle(str(folder), members, tuple(tuple(level[pair]) for pair in pairs))

    def _edges(
        self, files: Mapping[PurePosixPath, swift.Source]
    ) -> dict[tuple[PurePosixPath, PurePosixPath], list[str]]:
        """Returns the locations where a file of one target names a type of another file."""
        homes: dict[str, set[PurePosixPath]] = defaultdict(set)
        nested: dict[str, set[str]] = defaultdict(set)
        for path, source in files.items():
            for declared in source.declarations:
                if not declared.only_in_file:
                    homes[declared.name].add(path)
        for source in self.sources.values():
            for owner, names in source.nested.items():
                nested[owner] |= names
        edges: dict[tuple[PurePosixPath, PurePosixPath], list[str]] = defaultdict(list)
        for path, source in files.items():
            own = {declared.name for declared in source.declarations} | source.generics
            for mention in source.mentions:
                if mention.name in own or len(homes[mention.name]) != 1:
                    continue
                if any(mention.name in nested[owner] for owner in mention.enclosing):
                    continue
                (home,) = homes[mention.name]
                edges[path, home].append(f"{path}:{mention.line} names {mention.name}")
        return edges

    def duplicate_names(self) -> list[str]:
        found: dict[str, list[str]] = defaultdict(list)
        for path, source in self.sources.items():
            for declared in source.declarations:
                if not declared.only_in_file:
                    found[declared.name].append(f"{path}:{declared.line}")
        return [
            f"{name} is declared at {', '.join(places)}" for name, places in sorted(found.items()) if len(places) > 1
        ]

    def types_away_from_home(self) -> list[str]:
        users: dict[str, set[PurePosixPath]] = defaultdict(set)
        for path, source in self.sources.items():
            if path.parts[0] == "Sources":
                for mention in source.mentions:
                    users[mention.name].add(path)
        found = []
        for path, source in self.sources.items():
            if path.parts[0] != "Sources" or COLLECTION.search(path.stem):
                continue
            for declared in source.declarations:
                others = len(users[declared.name] - {path})
                if not declared.only_in_file and declared.name != path.stem.split("+")[0] and others > 1:
                    found.append(f"{path}:{declared.line} declares {declared.name}, which {others} other files name")
        return found

    def long_files(self) -> list[str]:
        return [
            f"{path} has {source.lines} lines; at most {LONGEST_FILE} are allowed"
            for path, source in self.sources.items()
            if source.lines > LONGEST_FILE
        ]

    def figures(self, paths: Iterable[str]) -> list[tuple[str, int | float]]:
        every = [source.lines for source in self.sources.values()]
        shipped = [source.lines for path, source in self.sources.items() if path.parts[0] == "Sources"]
        return [
            ("Swift files", len(every)),
            ("Swift files in Sources", len(shipped)),
            ("median lines", statistics.median(every or [0])),
            ("median lines in Sources", statistics.median(shipped or [0])),
            (f"files under {SHORT_FILE} lines", sum(lines < SHORT_FILE for lines in every)),
            (f"files under {SHORT_FILE} lines in Sources", sum(lines < SHORT_FILE for lines in shipped)),
            (f"files over {LONGEST_FILE} lines", len(self.long_files())),
            ("lines", sum(every)),
            ("lines in Sources", sum(shipped)),
            ("circles between folders", len(self.circles())),
            ("names of two types", len(self.duplicate_names())),
            ("paths that differ in case only", len(same_but_for_case(paths))),
        ]


def _at_level(folder: PurePosixPath, edges: Mapping[tuple[PurePosixPath, PurePosixPath], list[str]]) -> Edges:
    """Returns the dependencies between a folder's own files and its sub-folders."""
    level: Edges = defaultdict(list)
    for (here, there), places in edges.items():
        if here.is_relative_to(folder) and there.is_relative_to(folder):
            members = _member(folder, here), _member(folder, there)
            if members[0] != members[1]:
                level[members] += places
    return dict(level)


def _member(folder: PurePosixPath, file: PurePosixPath) -> str:
    inside = file.relative_to(folder)
    return inside.parts[0] if len(inside.parts) > 1 else LOOSE


def _upward(folder: PurePosixPath, level: Edges) -> Iterator[Circle]:
    """Adds dependencies of a target's own files on its folders, whether or not they name each of them."""
    for (here, there), places in sorted(level.items()):
        if there == LOOSE:
            yield Circle(str(folder), (here, LOOSE), (tuple(places), tuple(level.get((LOOSE, here), ()))))


def shortest_circles(edges: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Returns the shortest circle through each edge of a circle; each circle once, starting at its first name."""
    following: dict[str, list[str]] = defaultdict(list)
    for here, there in sorted(edges):
        following[here].append(there)
    circles = set()
    for here in list(following):
        for there in following[here]:
            if way := _shortest_way(following, there, here):
                first = way.index(min(way))
                circles.add((*way[first:], *way[:first]))
    return sorted(circles, key=lambda circle: (len(circle), circle))


def _shortest_way(following: Mapping[str, list[str]], start: str, end: str) -> list[str] | None:
    ways = deque([[start]])
    seen = {start}
    while ways:
        way = ways.popleft()
        if way[-1] == end:
            return way
        for node in following.get(way[-1], []):
            if node not in seen:
                seen.add(node)
                ways.append([*way, node])
    return None


def same_but_for_case(paths: Iterable[str]) -> list[str]:
    """Returns groups of files or folders that a case-insensitive file system does not distinguish."""
    spellings: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        for part in (PurePosixPath(path), *PurePosixPath(path).parents):
            spellings[str(part).lower()].add(str(part))
    groups = [sorted(group) for group in spellings.values() if len(group) > 1]
    # The folder's finding covers its contents, which differ for the same reason.
    tops = [group for group in groups if len({str(PurePosixPath(path).parent) for path in group}) == 1]
    return [" and ".join(group) + " differ in case only" for group in sorted(tops)]


def read_targets(manifest: str) -> list[Target]:
    """Returns the targets of Package.swift with their folders."""
    targets = []
    text = re.sub(r"//.*", "", manifest)
    for match in re.finditer(r"\.(target|executableTarget|testTarget)\(", text):
        body = text[match.end() : _closing(text, match.end())]
        name, path = re.search(r'name:\s*"([^"]+)"', body), re.search(r'path:\s*"([^"]+)"', body)
        if name:
            place = path[1] if path else ("Tests/" if match[1] == "testTarget" else "Sources/") + name[1]
            targets.append(Target(name[1], PurePosixPath(place)))
    return targets


def _closing(text: str, at: int) -> int:
    depth = 1
    while at < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def package_paths(root: Path) -> list[str]:
    """Returns every file that git tracks or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    return sorted({path for path in listing.split("\0") if path and (root / path).is_file()})


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=CHECKS, help="run this check; may be given several times")
    parser.add_argument(
        "--in", dest="folder", help="print findings that name this path only, such as Sources/Interlock"
    )
    parser.add_argument(
        "--places", type=int, default=3, help="the number of locations to print for each step of a circle"
    )
    parser.add_argument("--figures", action="store_true", help="print counts and check nothing")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], help="another clone to read")
    options = parser.parse_args(arguments)
    paths = package_paths(options.root)
    swift_files = [path for path in paths if path.endswith(".swift") and path.split("/")[0] in TREES]
    tree = Tree(
        read_targets((options.root / "Package.swift").read_text()),
        {path: (options.root / path).read_text() for path in swift_files},
    )
    checks: dict[str, Callable[[int], list[str]]] = {
        "case": lambda shown: same_but_for_case(paths),
        "circles": lambda shown: [circle.describe(shown) for circle in tree.circles()],
        "homes": lambda shown: tree.types_away_from_home(),
        "names": lambda shown: tree.duplicate_names(),
        "length": lambda shown: tree.long_files(),
    }
    if options.figures:
        for title, figure in tree.figures(paths):
            print(f"{figure:>8g}  {title}")
        return 0
    findings = 0
    for name in options.only or CHECKS:
        for finding in checks[name](options.places):
            if not options.folder or options.folder in finding.split("\n")[0]:
                print(f"{name}: {finding}", file=sys.stderr)
                findings += 1
    if findings == 0:
        print(f"layout: {len(swift_files)} Swift files, no finding ({', '.join(options.only or CHECKS)})")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

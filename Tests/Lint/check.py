#!/usr/bin/env python3
"""Checks the layout of the Swift files: `make lint` runs it.

case     No two paths differ only in case.
cycles   Inside a target, sibling directories do not depend on each other in a cycle. The files directly in a target's
         directory are its top layer: they may name types of its subdirectories, but not the other way round.
files    A type of Sources that two or more other files there name is in a file of the same name. Files that collect
         commands, scripts and the like, and say so in their names, are exempt, and so is generated code.
names    No two top-level types have the same name, even in different targets.
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
MAX_FILE_LINES = 700
SHORT_FILE_LINES = 40
CHECKS = ("case", "cycles", "files", "names", "length")
COLLECTION = re.compile(r"(Calls|Commands|Counters|Errors|Histograms|Messages|Replies|Routes|Scripts)(\+\w+)?$|\.pb$")
LOOSE = "."
"""The files directly in a directory, without its subdirectories."""

Edges = dict[tuple[str, str], list[str]]
"""The dependencies between directories, with the locations that cause them."""


@dataclass(frozen=True)
class Target:
    name: str
    path: PurePosixPath


@dataclass(frozen=True)
class Cycle:
    folder: str
    members: tuple[str, ...]
    causes: tuple[tuple[str, ...], ...]
    """The locations where each member names the next one."""

    def describe(self, shown: int) -> str:
        round_trip = [*self.members, self.members[0]]
        lines = [f"{self.folder}: " + " → ".join(self._title(member) for member in round_trip)]
        for origin, destination, locations in zip(round_trip, round_trip[1:], self.causes, strict=False):
            if locations:
                lines.append(f"  {self._title(origin)} → {self._title(destination)}, {len(locations)} times")
            else:
                lines.append(
                    f"  {self._title(origin)} are above {self._title(destination)}, like the target's own files"
                )
            lines += [f"    {location}" for location in locations[:shown]]
            if len(locations) > shown:
                lines.append(f"    … and {len(locations) - shown} more")
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

    def cycles(self) -> list[Cycle]:
        return [cycle for target in self.targets for cycle in self._cycles_of(target)]

    def _cycles_of(self, target: Target) -> Iterator[Cycle]:
        files = self.files_of(target)
        edges = self._edges(files)
        for folder in sorted(
            {parent for path in files for parent in path.parents if parent.is_relative_to(target.path)}
        ):
            level = _at_level(folder, edges)
            if folder == target.path:
                yield from _upward(folder, level)
                level = {edge: locations for edge, locations in level.items() if LOOSE not in edge}
            for members in shortest_cycles(level):
                pairs = zip(members, [*members[1:], members[0]], strict=True)
                yield Cycle(str(folder), members, tuple(tuple(level[pair]) for pair in pairs))

    def _edges(
        self, files: Mapping[PurePosixPath, swift.Source]
    ) -> dict[tuple[PurePosixPath, PurePosixPath], list[str]]:
        """Returns the locations where a file of one target names a type of another file."""
        declaring_files: dict[str, set[PurePosixPath]] = defaultdict(set)
        nested: dict[str, set[str]] = defaultdict(set)
        for path, source in files.items():
            for declared in source.declarations:
                if not declared.only_in_file:
                    declaring_files[declared.name].add(path)
        for source in self.sources.values():
            for owner, names in source.nested.items():
                nested[owner] |= names
        edges: dict[tuple[PurePosixPath, PurePosixPath], list[str]] = defaultdict(list)
        for path, source in files.items():
            own = {declared.name for declared in source.declarations} | source.generics
            for mention in source.mentions:
                if mention.name in own or len(declaring_files[mention.name]) != 1:
                    continue
                if any(mention.name in nested[owner] for owner in mention.enclosing):
                    continue
                (declaring_file,) = declaring_files[mention.name]
                edges[path, declaring_file].append(f"{path}:{mention.line} names {mention.name}")
        return edges

    def duplicate_names(self) -> list[str]:
        found: dict[str, list[str]] = defaultdict(list)
        for path, source in self.sources.items():
            for declared in source.declarations:
                if not declared.only_in_file:
                    found[declared.name].append(f"{path}:{declared.line}")
        return [
            f"{name} is declared at {', '.join(locations)}"
            for name, locations in sorted(found.items())
            if len(locations) > 1
        ]

    def misplaced_types(self) -> list[str]:
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
            f"{path} has {source.lines} lines; at most {MAX_FILE_LINES} are allowed"
            for path, source in self.sources.items()
            if source.lines > MAX_FILE_LINES
        ]

    def figures(self, paths: Iterable[str]) -> list[tuple[str, int | float]]:
        every = [source.lines for source in self.sources.values()]
        shipped = [source.lines for path, source in self.sources.items() if path.parts[0] == "Sources"]
        return [
            ("Swift files", len(every)),
            ("Swift files in Sources", len(shipped)),
            ("median lines", statistics.median(every or [0])),
            ("median lines in Sources", statistics.median(shipped or [0])),
            (f"files under {SHORT_FILE_LINES} lines", sum(lines < SHORT_FILE_LINES for lines in every)),
            (f"files under {SHORT_FILE_LINES} lines in Sources", sum(lines < SHORT_FILE_LINES for lines in shipped)),
            (f"files over {MAX_FILE_LINES} lines", len(self.long_files())),
            ("lines", sum(every)),
            ("lines in Sources", sum(shipped)),
            ("cycles between folders", len(self.cycles())),
            ("names of several types", len(self.duplicate_names())),
            ("paths that differ only in case", len(case_conflicts(paths))),
        ]


def _at_level(folder: PurePosixPath, edges: Mapping[tuple[PurePosixPath, PurePosixPath], list[str]]) -> Edges:
    """Returns the dependencies between a directory's own files and its subdirectories."""
    level: Edges = defaultdict(list)
    for (origin, destination), locations in edges.items():
        if origin.is_relative_to(folder) and destination.is_relative_to(folder):
            members = _member(folder, origin), _member(folder, destination)
            if members[0] != members[1]:
                level[members] += locations
    return dict(level)


def _member(folder: PurePosixPath, file: PurePosixPath) -> str:
    inside = file.relative_to(folder)
    return inside.parts[0] if len(inside.parts) > 1 else LOOSE


def _upward(folder: PurePosixPath, level: Edges) -> Iterator[Cycle]:
    """Yields a cycle for each directory that names a type of the target's own files, which are in the top layer."""
    for (origin, destination), locations in sorted(level.items()):
        if destination == LOOSE:
            yield Cycle(str(folder), (origin, LOOSE), (tuple(locations), tuple(level.get((LOOSE, origin), ()))))


def shortest_cycles(edges: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Returns the shortest cycle through each edge of a cycle; each cycle once, starting at its first name."""
    successors: dict[str, list[str]] = defaultdict(list)
    for origin, destination in sorted(edges):
        successors[origin].append(destination)
    cycles = set()
    for origin in list(successors):
        for destination in successors[origin]:
            if route := _shortest_path(successors, destination, origin):
                first = route.index(min(route))
                cycles.add((*route[first:], *route[:first]))
    return sorted(cycles, key=lambda cycle: (len(cycle), cycle))


def _shortest_path(successors: Mapping[str, list[str]], start: str, end: str) -> list[str] | None:
    routes = deque([[start]])
    seen = {start}
    while routes:
        route = routes.popleft()
        if route[-1] == end:
            return route
        for node in successors.get(route[-1], []):
            if node not in seen:
                seen.add(node)
                routes.append([*route, node])
    return None


def case_conflicts(paths: Iterable[str]) -> list[str]:
    """Returns groups of files or directories that a case-insensitive file system does not distinguish."""
    spellings: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        for part in (PurePosixPath(path), *PurePosixPath(path).parents):
            spellings[str(part).lower()].add(str(part))
    groups = [sorted(group) for group in spellings.values() if len(group) > 1]
    # A finding for a directory covers its contents.
    tops = [group for group in groups if len({str(PurePosixPath(path).parent) for path in group}) == 1]
    return [" and ".join(group) + " differ only in case" for group in sorted(tops)]


def read_targets(manifest: str) -> list[Target]:
    """Returns the targets of Package.swift with their directories."""
    targets = []
    text = re.sub(r"//.*", "", manifest)
    for match in re.finditer(r"\.(target|executableTarget|testTarget)\(", text):
        body = text[match.end() : _closing(text, match.end())]
        name, path = re.search(r'name:\s*"([^"]+)"', body), re.search(r'path:\s*"([^"]+)"', body)
        if name:
            folder = path[1] if path else ("Tests/" if match[1] == "testTarget" else "Sources/") + name[1]
            targets.append(Target(name[1], PurePosixPath(folder)))
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
        "--locations", type=int, default=3, help="the number of locations to print for each step of a cycle"
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
        "case": lambda shown: case_conflicts(paths),
        "cycles": lambda shown: [cycle.describe(shown) for cycle in tree.cycles()],
        "files": lambda shown: tree.misplaced_types(),
        "names": lambda shown: tree.duplicate_names(),
        "length": lambda shown: tree.long_files(),
    }
    if options.figures:
        for title, figure in tree.figures(paths):
            print(f"{figure:>8g}  {title}")
        return 0
    findings = 0
    for name in options.only or CHECKS:
        for finding in checks[name](options.locations):
            if not options.folder or options.folder in finding.split("\n")[0]:
                print(f"{name}: {finding}", file=sys.stderr)
                findings += 1
    if findings == 0:
        print(f"layout: {len(swift_files)} Swift files, no finding ({', '.join(options.only or CHECKS)})")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

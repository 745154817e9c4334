#!/usr/bin/env python3
"""Puts one known bug at a time into the product. The simulation must find each of them.

The bugs go into a copy of the package, .build-seeded/tree, which is built in .build-seeded/build, so that only what
depends on the change is rebuilt. The next bug is built while the simulation searches for the previous one.

A bug counts as found when a simulated world breaks one of the promises that the bug names, and the same world of the
unchanged product keeps that promise. Where such worlds are rare, the bug names a story instead: a test of the
simulation that fails with the bug and passes without it. With --real, the bugs of the Lua scripts are built into
`interlock`, and `interlock bench` judges a run of real processes.

Exit code 0: each bug was found. 1: a bug was not found within its worlds and its time, or could not be built.
"""

import argparse
import concurrent.futures
import contextlib
import filecmp
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import scripts
import seeded
from seeded import Bug

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / ".build-seeded"
TREE = WORK / "tree"
BUILD = WORK / "build"
#: The simulation of the unchanged product, and the digest of the sources that it was built from.
CLEAN = WORK / "simulate-clean"
CLEAN_DIGEST = WORK / "simulate-clean.digest"
#: The build directory of the stories.
STORIES = WORK / "stories"
#: The files and directories that a build needs.
COPIED = ("Package.swift", "Package.resolved", "Sources", "Tests", "Benchmarks")
#: Not copied, because it is not built: a change to the lists of bugs builds nothing.
EXCLUDED = {"Tests/Mutation"}
KINDS = {"swift": seeded.BUGS, "scripts": scripts.BUGS}
PRODUCT = "Sources"
PROMISES = "Invariant.swift"
#: The maximum number of worlds for a bug, the maximum CPU seconds of a search, and the operations in each world. Many
#: short worlds find more than a few long ones.
WORLDS, TIMEOUT, OPERATIONS = 200, 120, 4000
#: The maximum seconds for a story. A story that takes longer counts as failed.
STORY_TIMEOUT = 300
#: The number of bugs that are built ahead of the searches.
AHEAD = 2
#: The options of a real run: long enough for leases to expire, breakers to trip and windows to pass many times.
RUN_OPTIONS = ("--seed", "1", "--duration", "15s")


def say(line: str) -> None:
    print(f"seeded: {line}", file=sys.stderr, flush=True)


# ---- The lists of bugs, checked against the sources


def product_files(name: str, root: pathlib.Path) -> list[pathlib.Path]:
    """Returns the product's files with this name, in any directory."""
    return sorted(path for path in (root / PRODUCT).rglob(name) if path.is_file())


def promise_names(text: str) -> set[str]:
    """The raw values of the Swift enum `Invariant`."""
    return {raw or case for case, raw in re.findall(r'^    case (\w+)(?: = "([^"]+)")?$', text, re.M)}


def problems(bugs: Sequence[Bug], root: pathlib.Path = ROOT) -> list[str]:
    """Returns the errors in the lists, one line each."""
    found = []
    promises = {name for path in product_files(PROMISES, root) for name in promise_names(path.read_text())}
    names = [bug.name for bug in bugs]
    found += [f"{name}: two bugs have this name" for name in sorted({name for name in names if names.count(name) > 1})]
    for bug in bugs:
        paths = product_files(bug.file, root)
        if len(paths) != 1:
            found.append(f"{bug.name}: {PRODUCT} has {len(paths) or 'no'} files named {bug.file}, not one")
            continue
        count = paths[0].read_text().count(bug.old)
        if count != 1:
            found.append(f"{bug.name}: the text to replace occurs {count} times in {bug.file}, not once")
        if bug.old == bug.new:
            found.append(f"{bug.name}: it changes nothing")
        if not bug.promises:
            found.append(f"{bug.name}: it breaks no promise")
        found += [f"{bug.name}: there is no promise {name}" for name in bug.promises if name not in promises]
    return found


# ---- The copy


def files(root: pathlib.Path) -> dict[pathlib.Path, pathlib.Path]:
    """Every file that a build needs, by its path below `root`."""
    found = {}
    for name in COPIED:
        top = root / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            relative = path.relative_to(root)
            if not path.is_file() or "__pycache__" in relative.parts:
                continue
            if any(relative.as_posix().startswith(f"{folder}/") for folder in EXCLUDED):
                continue
            found[relative] = path
    return found


def copy_tree() -> str:
    """Updates the copy and touches only files that differ. Returns a digest of the copy."""
    sources = files(ROOT)
    for relative in files(TREE).keys() - sources.keys() if TREE.exists() else ():
        (TREE / relative).unlink()
    digest = hashlib.sha256()
    for relative, path in sorted(sources.items()):
        target = TREE / relative
        if not target.is_file() or not filecmp.cmp(path, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        digest.update(f"{relative}\0".encode() + target.read_bytes() + b"\0")
    return digest.hexdigest()


@contextlib.contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Puts the bug into the copy while the context lasts."""
    (path,) = product_files(bug.file, TREE)
    before = path.read_text()
    path.write_text(before.replace(bug.old, bug.new))
    try:
        yield
    finally:
        path.write_text(before)


# ---- Building and running


class BuildFailed(Exception):
    """The message is the compiler's errors."""


def build(description: str, product: str) -> pathlib.Path:
    """Builds one program of the copy. Returns its path."""
    swift_build(description, "-c", "release", "--product", product, "--scratch-path", str(BUILD))
    return BUILD / "release" / product


def swift_build(description: str, *arguments: str) -> None:
    """Builds part of the copy, and reports the time every 10 s."""
    command = ["swift", "build", "--package-path", str(TREE), *arguments]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        interval = 2
        while True:
            try:
                output, _ = process.communicate(timeout=interval)
                break
            except subprocess.TimeoutExpired:
                say(f"building {description}, for {time.monotonic() - began:.0f} s")
                interval = 10
            except BaseException:
                process.terminate()
                raise
    if process.returncode != 0:
        errors = [line for line in output.splitlines() if "error:" in line]
        raise BuildFailed("\n".join(f"    {line}" for line in (errors or output.splitlines()[-20:])[:20]))


@dataclass(frozen=True)
class Search:
    """The result of one run of the simulation."""

    code: int
    report: dict[str, Any]
    seconds: float

    @property
    def is_out_of_time(self) -> bool:
        return self.code == -signal.SIGXCPU

    @property
    def promise(self) -> str | None:
        return self.report.get("promise")


def simulate(program: pathlib.Path, *arguments: str, timeout: int) -> Search:
    """Runs worlds until one has a finding. The simulation reports its progress on standard error."""

    def limit_resources() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (timeout, timeout + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    began = time.monotonic()
    command = [str(program), *arguments, "--operations", str(OPERATIONS), "--json", "--until-found"]
    # A bug may crash the process. Swift's own backtrace would take seconds.
    environment = {**os.environ, "SWIFT_BACKTRACE": "enable=no"}
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=limit_resources)
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    return Search(result.returncode, json.loads(lines[-1]) if lines else {}, time.monotonic() - began)


def clean_simulation(digest: str) -> pathlib.Path:
    """The simulation of the unchanged product. It is built only when the sources have changed."""
    if CLEAN.exists() and CLEAN_DIGEST.exists() and CLEAN_DIGEST.read_text() == digest:
        return CLEAN
    CLEAN_DIGEST.unlink(missing_ok=True)
    shutil.copy(build("the unchanged product", "simulate"), CLEAN)
    CLEAN_DIGEST.write_text(digest)
    return CLEAN


# ---- The search


def verdict(bug: Bug, search: Search, clean: pathlib.Path, timeout: int) -> tuple[bool, str]:
    """Returns whether the bug was found, or the reason why not."""
    if search.is_out_of_time:
        return False, f"nothing within {timeout} s of CPU time"
    if search.code == 0:
        return False, f"nothing in {search.report.get('seeds', '?')} worlds"
    if search.code != 1 or search.promise is None:
        return False, f"the simulation ended with {search.code} and found nothing"
    if search.promise not in bug.promises:
        return False, f"expected {' or '.join(bug.promises)}: {search.report.get('finding')}"
    unchanged = simulate(clean, "--seed", str(search.report["seed"]), timeout=timeout)
    if unchanged.promise == search.promise:
        return False, "the unchanged product breaks the same promise in this world"
    return True, ""


def built(bug: Bug, product: str) -> pathlib.Path:
    """Builds a program with the bug in it. Returns a path that the next build does not overwrite."""
    with planted(bug):
        program = build(bug.name, product)
    return pathlib.Path(shutil.copy(program, WORK / f"{product}-{bug.name}"))


def print_row(bug: Bug, promise: str | None, seed: object, count: object, seconds: float, reason: str) -> None:
    """Prints a line of the table."""
    print(
        f"{bug.name:42} {promise or '-':18} {seed:>6} {count:>6} {seconds:>8.1f}"
        + (f"  NOT FOUND: {reason}" if reason else ""),
        flush=True,
    )


def search_for(bug: Bug, program: pathlib.Path, clean: pathlib.Path, options: argparse.Namespace) -> bool:
    """Returns whether a world shows the bug."""
    search = simulate(program, "--seeds", str(options.seeds), timeout=options.timeout)
    program.unlink()
    is_found, reason = verdict(bug, search, clean, options.timeout)
    print_row(
        bug, search.promise, search.report.get("seed", "-"), search.report.get("seeds", "-"), search.seconds, reason
    )
    return is_found


def search_all(bugs: Sequence[Bug], options: argparse.Namespace) -> list[str]:
    """Returns the names of the bugs that were not found."""
    clean = clean_simulation(copy_tree())
    print_header()
    missed: list[str] = []
    searches: dict[str, concurrent.futures.Future[bool]] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as searcher:

        def collect(remaining: int) -> None:
            while len(searches) > remaining:
                name = next(iter(searches))
                if not searches.pop(name).result():
                    missed.append(name)

        for number, bug in enumerate(bugs, start=1):
            say(f"{number} of {len(bugs)}: {bug.name}")
            try:
                program = built(bug, "simulate")
            except BuildFailed as failure:
                print(f"{bug.name:42} {'NOT BUILT':18}\n{failure}", flush=True)
                missed.append(bug.name)
                continue
            searches[bug.name] = searcher.submit(search_for, bug, program, clean, options)
            collect(AHEAD)
        collect(0)
    return missed


# ---- Stories


def run_stories(bugs: Sequence[Bug]) -> set[str]:
    """Runs the stories of these bugs on the copy. Returns the names of the bugs whose story failed."""
    swift_build(", ".join(bug.name for bug in bugs), "--build-tests", "--scratch-path", str(STORIES))
    failed = set()
    for bug in bugs:
        command = [
            "swift",
            "test",
            "--skip-build",
            "--package-path",
            str(TREE),
            "--scratch-path",
            str(STORIES),
            "--filter",
            bug.story,
        ]
        try:
            result = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=STORY_TIMEOUT
            )
        except subprocess.TimeoutExpired:
            failed.add(bug.name)
            continue
        if "Test run with 0 tests" in result.stdout:
            sys.exit(f"seeded: no test {bug.story}")
        # A bug that crashes the process fails its story too.
        if result.returncode != 0:
            failed.add(bug.name)
    return failed


def search_stories(bugs: Sequence[Bug]) -> list[str]:
    """Returns the names of the bugs that their stories do not show."""
    copy_tree()
    say("the stories of the unchanged product")
    if failed := run_stories(bugs):
        sys.exit(f"seeded: the unchanged product fails in the stories of {', '.join(sorted(failed))}")
    print_header()
    missed = []
    for number, bug in enumerate(bugs, start=1):
        say(f"{number} of {len(bugs)}: {bug.name}")
        began = time.monotonic()
        try:
            with planted(bug):
                is_found = bug.name in run_stories([bug])
        except BuildFailed as failure:
            print(f"{bug.name:42} {'NOT BUILT':18}\n{failure}", flush=True)
            missed.append(bug.name)
            continue
        print_row(
            bug,
            "in its story" if is_found else None,
            "",
            "",
            time.monotonic() - began,
            "" if is_found else "its story passed",
        )
        if not is_found:
            missed.append(bug.name)
    return missed


def print_header() -> None:
    print(f"{'bug':42} {'promise found':18} {'seed':>6} {'worlds':>6} {'seconds':>8}", flush=True)


# ---- Real runs


def bench(program: pathlib.Path, arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Runs real processes. Returns the exit code and the broken promises."""
    with tempfile.TemporaryDirectory(prefix="interlock-seeded-") as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [str(program), "bench", *arguments, *RUN_OPTIONS, "--json", str(report)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if not report.exists():
            printed = result.stdout + result.stderr
            sys.exit(f"seeded: {' '.join(command)} wrote no report (exit code {result.returncode}):\n{printed}")
        return result.returncode, [
            violation["promise"] for violation in json.loads(report.read_text())["check"]["violations"]
        ]


def run_all(bugs: Sequence[Bug]) -> list[str]:
    """Returns the names of the bugs that no real run showed. A build would disturb a run, so the two alternate."""
    copy_tree()
    clean = build("the unchanged product", "interlock")
    # `interlock bench` starts the harness, which starts the `interlock` in its own directory.
    build("the load harness", "interlock-bench")
    for workload in sorted({bug.bench for bug in bugs}):
        say(f"the unchanged product: interlock bench {' '.join(workload)}")
        if any(bench(clean, workload)):
            sys.exit(f"seeded: the unchanged product breaks promises in interlock bench {' '.join(workload)}")
    print_header()
    missed = []
    for number, bug in enumerate(bugs, start=1):
        say(f"{number} of {len(bugs)}: {bug.name}")
        with planted(bug):
            program = build(bug.name, "interlock")
        began = time.monotonic()
        code, broken = bench(program, bug.bench)
        found = next((promise for promise in broken if promise in bug.promises), None)
        is_found = code == 1 and found is not None
        print_row(
            bug,
            found,
            "-",
            "-",
            time.monotonic() - began,
            "" if is_found else f"it ended with {code}, {broken or 'nothing broken'}",
        )
        if not is_found:
            missed.append(bug.name)
    return missed


def chosen(options: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Bug]:
    bugs = [bug for kind, group in KINDS.items() if options.kind in (kind, "all") for bug in group]
    known = {bug.name for bug in bugs}
    for name in options.only:
        if name not in known:
            parser.error(f"no bug {name} of this kind; expected one of {', '.join(sorted(known))}")
    return [bug for bug in bugs if (not options.only or bug.name in options.only) and (bug.bench or not options.real)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make mutation-test ARGS=…", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=(*KINDS, "all"), default="all", help="the language of the bugs")
    parser.add_argument(
        "--only", nargs="+", action="extend", default=[], metavar="NAME", help="search only for these bugs"
    )
    parser.add_argument(
        "--seeds", type=int, default=WORLDS, metavar="N", help=f"worlds for each bug (default {WORLDS})"
    )
    parser.add_argument(
        "--timeout",
        type=int,
        default=TIMEOUT,
        metavar="S",
        help=f"CPU seconds for each search, without the build (default {TIMEOUT})",
    )
    parser.add_argument(
        "--real", action="store_true", help="search with real runs of `interlock bench`; only for bugs in Lua scripts"
    )
    parser.add_argument(
        "--check", action="store_true", help="build nothing; check that each bug still fits the sources"
    )
    options = parser.parse_args()
    bugs = chosen(options, parser)
    if found := problems(bugs):
        sys.exit("\n".join(f"seeded: {line}" for line in found))
    if options.check:
        print(f"seeded: {len(bugs)} bugs, each fits the sources once")
        return
    began = time.monotonic()
    TREE.mkdir(parents=True, exist_ok=True)
    try:
        if options.real:
            missed = run_all(bugs)
        else:
            worlds, stories = [bug for bug in bugs if not bug.story], [bug for bug in bugs if bug.story]
            missed = search_all(worlds, options) if worlds else []
            missed += search_stories(stories) if stories else []
    except BuildFailed as failure:
        sys.exit(f"seeded: cannot be built:\n{failure}")
    print(f"seeded: {len(bugs) - len(missed)} of {len(bugs)} found in {time.monotonic() - began:.0f} s")
    if missed:
        sys.exit(f"seeded: not found: {', '.join(missed)}")


if __name__ == "__main__":
    main()

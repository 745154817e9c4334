"""Runs the examples of the README and all pages, and compares their output with the pages.

`make documents` runs it. Each page has its own Redis, sidecar and upstream, on free ports that replace those of the
page. A page with Python is run with each redis-py that `make setup` installs. pages.py describes the comments that a
page may have. Blocks that are not run are listed with their reasons.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import expected
import pages
from servers import Failure, Servers

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/**/*.md")
VENV = ROOT / ".venv"
#: The timeouts of a block and of the whole run, in seconds.
BLOCK_TIMEOUT, RUN_TIMEOUT = 30.0, 240.0
#: The number of pages that run concurrently. They mostly wait.
CONCURRENCY = 3
#: Printed after each command of a session.
SEPARATOR = "\x1e"


@dataclass
class Edition:
    """A way to run a page: its name and environment."""

    name: str
    environment: dict[str, str]


@dataclass
class Results:
    """The results of a page's blocks."""

    run: int = 0
    #: Failures, as text for a report.
    failures: list[str] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)
    #: Blocks that the page does not run.
    shown: list[str] = field(default_factory=list)


def editions(page: pages.Page) -> list[Edition]:
    if not any(isinstance(step, pages.File | pages.Program) and "import redis" in step.text for step in page.steps):
        return [Edition("", {})]
    newest = sorted((VENV / "apart").glob("redis==*"))
    if not newest or not (VENV / "bin/python").exists():
        sys.exit("documents: .venv does not exist; run make setup")
    return [Edition("redis-py of .venv", {"PYTHONPATH": ""})] + [
        Edition(folder.name, {"PYTHONPATH": str(folder)}) for folder in newest
    ]


class Run:
    """Runs one page in one edition."""

    def __init__(self, page: pages.Page, edition: Edition, binary: Path, deadline: float) -> None:
        self.page = page
        self.edition = edition
        folder = Path(tempfile.mkdtemp(prefix="interlock-documents-"))
        self.work = folder / "work"
        self.work.mkdir()
        self.deadline = deadline
        self.servers = Servers(binary, folder)
        self.environment = {**self.servers.environment, **edition.environment}

    @property
    def name(self) -> str:
        path = str(self.page.path.relative_to(ROOT)) if self.page.path.is_relative_to(ROOT) else str(self.page.path)
        return f"{path} ({self.edition.name})" if self.edition.name else path

    def run(self) -> Results:
        """Runs the page's steps. A failure does not stop it, because later steps often show the cause."""
        results = Results()
        for step in self.page.steps:
            try:
                self.do(step, results)
            except Failure as failure:
                results.failures.append(f"{self.name}, line {step.line}: {failure}")
        if results.failures:
            lines = (self.servers.folder / "log").read_text(errors="replace").splitlines()[-20:]
            results.failures.append("  the servers logged:\n" + "".join(f"    | {line}\n" for line in lines))
        return results

    def do(self, step: pages.Step, results: Results) -> None:
        match step:
            case pages.File():
                path = self.work / step.name
                path.write_text(self.servers.with_run_ports(step.text))
                if step.name == "interlock.yaml":
                    self.servers.start_sidecar(path)
                elif step.text.startswith("#!"):
                    path.chmod(0o755)
            case pages.Check():
                self.check(step)
                results.run += 1
            case pages.Shown():
                results.shown.append(f"{self.name}, line {step.line}: {step.reason}")
            case pages.Event(server="make"):
                self.servers.start_private_sidecar(self.sample(ROOT / "docs/sample.yaml"))
            case pages.Event(server="sidecar"):
                self.servers.start_sidecar(self.sample(ROOT / step.state))
            case pages.Event():
                self.sidecar()
                self.servers.set_state(step.server, step.state)
            case pages.Session():
                self.sidecar()
                self.session(step)
                results.run += 1
            case pages.Program():
                self.sidecar()
                if missing := self.missing(step):
                    results.skipped.add(f"{self.name}, line {step.line}: {missing} is not installed")
                else:
                    self.program(step)
                    results.run += 1

    def sample(self, path: Path) -> Path:
        """Returns a copy of a file of the repository, with the ports of this run."""
        copy = self.work / path.name
        copy.write_text(self.servers.with_run_ports(path.read_text()))
        return copy

    def check(self, check: pages.Check) -> None:
        path = self.work / f"block-{check.line}.yaml"
        path.write_text(check.text)
        status, printed = self.command(["interlock", "check-config", "--without-secrets", str(path)])
        if status != 0:
            raise Failure(f"check-config exits with {status}\n{expected.difference('', printed)}")

    def sidecar(self) -> None:
        if self.servers.sidecar is None:
            self.servers.start_sidecar(None)

    # ---- programs

    def missing(self, program: pages.Program) -> str | None:
        """Returns the missing program or package, if any."""
        tool = {"js": "node", "go": "go"}.get(program.language, program.needs)
        if tool and not shutil.which(tool):
            return tool
        if program.language == "js" and program.needs:
            command = ["node", "--eval", f"require.resolve({program.needs!r})"]
            if subprocess.run(command, cwd=self.work, env=self.environment, capture_output=True).returncode != 0:
                return f"{program.needs} for node"
        return None

    def program(self, program: pages.Program) -> None:
        suffix = {"python": "py", "js": "cjs" if program.needs else "mjs", "go": "go", "sh": "sh"}.get(program.language)
        if suffix is None:
            raise Failure(f"{program.language} has no runner")
        path = self.work / f"block-{program.line}.{suffix}"
        path.write_text(self.servers.with_run_ports(program.text))
        runner = {
            "py": [str(VENV / "bin/python"), str(path)],
            "go": ["go", "run", str(path)],
            "sh": ["bash", str(path)],
        }.get(suffix, ["node", str(path)])
        status, printed = self.command(runner)
        if status != program.status:
            raise Failure(f"exited with {status} instead of {program.status}\n{expected.difference('', printed)}")
        if not expected.matches(program.prints or "", printed):
            raise Failure(f"other output\n{expected.difference(program.prints or '', printed)}")

    # ---- sessions

    def session(self, session: pages.Session) -> None:
        """Runs the commands in one shell with a terminal, so that programs print text for humans."""
        script = "".join(
            f"{self.servers.with_run_ports(command)}\nprintf '{SEPARATOR}'\n" for command, _ in session.commands
        )
        status, printed = self.command(["bash", "-c", script])
        *parts, _ = [*printed.split(SEPARATOR)] if SEPARATOR in printed else [printed, ""]
        if len(parts) != len(session.commands):
            raise Failure(f"the shell ended early, with {status}\n{expected.difference('', printed)}")
        for (command, shown), part in zip(session.commands, parts, strict=True):
            if not expected.matches(shown, part):
                raise Failure(f"other output of $ {command}\n{expected.difference(shown, part)}")

    # ---- processes

    def command(self, words: list[str]) -> tuple[int, str]:
        """Runs a command with a terminal as its output. Returns its exit code and output."""
        reader, writer = pty.openpty()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            cwd=self.work,
            env=self.environment,
            start_new_session=True,
        )
        os.close(writer)
        os.set_blocking(reader, False)
        output = bytearray()
        deadline = min(time.monotonic() + BLOCK_TIMEOUT, self.deadline)
        try:
            while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                self.read(reader, output)
                if time.monotonic() > deadline:
                    raise Failure(f"not done in time\n{expected.difference('', output.decode(errors='replace'))}")
                time.sleep(0.01)
            self.read(reader, output)
        finally:
            # This includes background processes. The process is not reaped yet, so its group ID is not reused.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(reader)
        return process.returncode, self.servers.with_page_ports(output.decode(errors="replace"))

    @staticmethod
    def read(terminal: int, output: bytearray) -> None:
        try:
            while part := os.read(terminal, 1 << 16):
                output += part
        except OSError:
            # No output yet, or all writers have closed.
            pass


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--binary", required=True, type=Path, help="the built interlock")
    parser.add_argument("pages", nargs="*", type=Path, help="run only these pages")
    options = parser.parse_args()
    paths = options.pages or sorted(path for pattern in PAGES for path in ROOT.glob(pattern))
    begin = time.monotonic()
    total = Results()
    runs: list[tuple[pages.Page, Edition]] = []
    for path in paths:
        try:
            page = pages.read(path.resolve())
        except pages.PageError as error:
            total.failures.append(f"{path}: {error}")
            continue
        if any(isinstance(step, pages.Program | pages.Session | pages.Check) for step in page.steps):
            runs += [(page, edition) for edition in editions(page)]
        else:
            total.shown += [
                f"{path.resolve().relative_to(ROOT)}, line {step.line}: {step.reason}"
                for step in page.steps
                if isinstance(step, pages.Shown)
            ]

    def run_page(job: tuple[pages.Page, Edition]) -> Results:
        since = time.monotonic()
        try:
            run = Run(*job, options.binary.resolve(), begin + RUN_TIMEOUT)
        except Failure as failure:
            return Results(failures=[f"{job[0].path}: {failure}"])
        try:
            return run.run()
        finally:
            run.servers.close()
            print(f"{run.name}: {time.monotonic() - since:.1f} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor(CONCURRENCY) as threads:
        for results in threads.map(run_page, runs):
            total.run += results.run
            total.failures += results.failures
            total.skipped |= results.skipped
            total.shown += results.shown
    for reason in sorted(total.skipped):
        print(f"SKIPPED {reason}")
    for reason in dict.fromkeys(sorted(total.shown)):
        print(f"NOT RUN {reason}")
    print("\n".join(total.failures))
    result = "some pages failed" if total.failures else "all pages passed"
    print(f"documents: {result}; {total.run} blocks, {len(total.skipped)} skipped, {time.monotonic() - begin:.0f} s")
    return int(bool(total.failures))


if __name__ == "__main__":
    sys.exit(main())

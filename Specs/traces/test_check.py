"""Tests of the exit codes and messages of check.py, check_traces.py and record_fleet.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import check
from check_traces import GAP, Bench, Runs
from traces import locks
from traces.test_calls import LOCK, NOW, call, line, source
from traces.test_monitor import END as PING
from traces.testing import TlcTestCase


def run(*words: object, program: str = "check_traces.py") -> subprocess.CompletedProcess[str]:
    """Runs a program of this folder."""
    command = [sys.executable, str(check.SPECS / program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


class CommandLineTests(unittest.TestCase):
    """Checks programs that stop before TLC is needed."""

    def test_an_unknown_bug(self) -> None:
        found = run("--simulate", sys.executable, "--bugs", "TYPO")
        self.assertEqual(found.returncode, check.USAGE)
        self.assertIn("no bug is named TYPO", found.stderr)

    def test_a_fleet_of_one(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = run(Path(folder, "new"), "--fleet", 1, program="record_fleet.py")
            self.assertEqual(found.returncode, check.USAGE, found.stderr)
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_a_folder_that_exists(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = run(folder, program="record_fleet.py")
            self.assertEqual(found.returncode, check.USAGE, found.stderr)
            self.assertNotIn("Traceback", found.stderr)


class RunsTests(unittest.TestCase):
    """Checks the background runs of TLC."""

    def test_a_failure_appears_at_the_next_run(self) -> None:
        failed = threading.Event()

        def fail() -> None:
            failed.set()
            raise ValueError("TLC failed")

        with self.assertRaisesRegex(ValueError, "TLC failed"), Runs() as runs:
            runs.submit(fail)
            failed.wait()
            while True:
                runs.submit(lambda: time.sleep(0.01))

    def test_few_runs_are_open(self) -> None:
        with Runs() as runs:
            for _ in range(10 * runs.most):
                runs.submit(lambda: time.sleep(0.001))
                self.assertLessEqual(len(runs._open), runs.most)
            runs.finish()

    def test_a_script_of_which_all_calls_are_skipped_is_a_gap(self) -> None:
        other = {"hash": [["a", "1"]]}
        with Runs() as runs:
            bench = Bench(locks, runs)
            for _ in range(GAP):
                bench.add(call("renew", ["a", "5000"], 1, [other]), "a test")
            self.assertEqual(bench.gaps(), ["LockTrace"])
            bench.add(call("leave", ["t", "wake:", "a"], 0, [LOCK, None, None, None, None]), "a test")
            self.assertEqual(bench.gaps(), ["renew"])

    def test_a_doubtful_call_of_another_module_is_not_skipped(self) -> None:
        doubtful = call("renew", ["a", "5000"], -1, [{"string": "shared/a", "until": NOW // 1000 + 900}])
        doubtful.is_doubtful = True
        with Runs() as runs:
            bench = Bench(locks, runs)
            bench.add(doubtful, "a test")
            self.assertFalse(bench.skipped)


class CheckTests(TlcTestCase):
    """Checks the result of check_traces.py for files and worlds."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def write(self, name: str, *lines: object) -> Path:
        """Writes a file with these lines; texts stay as they are."""
        path = self.folder / name
        texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
        path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        return path

    def program(self, *lines: str) -> Path:
        """Writes a program in Python that takes the place of `simulate`."""
        path = self.write("simulate", f"#!{sys.executable}", "import sys, time", *lines)
        path.chmod(0o755)
        return path

    def check_fails(self, text: str, *words: object) -> None:
        """Checks that nothing is judged, and the message."""
        found = run(*words)
        self.assertRegex(found.stderr, text)
        self.assertNotIn("Traceback", found.stderr)
        self.assertEqual(found.returncode, check.UNCHECKED)

    def test_files_that_cannot_be_read(self) -> None:
        self.check_fails("calls.jsonl:1: ", self.write("calls.jsonl", "{"))
        self.check_fails("Is a directory", self.folder)
        key = '1796100896.000001 [0 127.0.0.1:1] "APPEND" "k" "x"'
        self.check_fails("other.monitor:2: .*APPEND", "--monitor", self.write("other.monitor", "OK", key, PING.strip()))
        self.check_fails("no call to check", "--monitor", self.write("empty.monitor", "OK"))

    def test_worlds_that_fail(self) -> None:
        self.check_fails("wrote no calls", "--simulate", self.program())
        self.check_fails("exited with 9", "--simulate", self.program("sys.exit(9)"))
        empty = self.program("open(sys.argv[sys.argv.index('--scripts') + 1], 'w')")
        self.check_fails("20 worlds, up to simulate --seed 19, led to no step", "--simulate", empty, "--first", 0)

    def test_a_seed_of_zero_is_a_seed(self) -> None:
        found = run("--simulate", self.program("sys.exit(9)"), "--first", 0)
        self.assertIn("simulate --seed 0 exited", found.stderr)
        self.assertIn("--first 0 repeats this run", found.stderr)

    def test_a_changed_script(self) -> None:
        text = {"script": "s", "source": source("release").replace("return 1", "return 7")}
        right = {"script": "r", "source": source("renew")}
        renewal = line("r", keys=["k"], args=["a", "900"], before=[LOCK], after=[LOCK])
        found = run(self.write("calls.jsonl", right, renewal, text, line("s")))
        self.assertEqual(found.returncode, check.UNCHECKED)
        self.assertIn("release.lua has changed", found.stderr)
        self.assertIn("another version of release.lua 1", found.stdout)

    def test_a_reply_of_another_shape_is_illegal(self) -> None:
        right = {"script": "r", "source": source("renew")}
        renewal = line("r", keys=["k"], args=["a", "900"], before=[LOCK], after=[LOCK], reply=[1])
        found = run(self.write("calls.jsonl", right, renewal))
        self.assertEqual(found.returncode, 1, found.stderr)
        self.assertIn("ILLEGAL renew.lua", found.stderr)

    def test_a_signal_ends_all_programs(self) -> None:
        temporary = self.folder / "temporary"
        java = self.write("java", "#!/bin/sh", f"touch {self.folder}/started", "exec sleep 60")
        java.chmod(0o755)
        world = self.program(f"open('{self.folder}/started', 'w')", "time.sleep(60)")
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        for number, words in (
            (signal.SIGTERM, ["check.py", "Lock-loss-break"]),
            (signal.SIGINT, ["check.py", "Lock-loss-break"]),
            (signal.SIGTERM, ["check_traces.py", "--simulate", str(world)]),
        ):
            with self.subTest(words=words, number=number):
                temporary.mkdir(exist_ok=True)
                command = [sys.executable, str(check.SPECS / words[0]), *words[1:]]
                process = subprocess.Popen(
                    command,
                    env={**os.environ, "PATH": path, "TMPDIR": str(temporary)},
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
                while not (self.folder / "started").exists():
                    time.sleep(0.01)
                process.send_signal(number)
                errors = process.communicate(timeout=20)[1]
                self.assertEqual(process.returncode, 128 + number, errors)
                self.assertNotIn("Traceback", errors)
                self.assertEqual(list(temporary.iterdir()), [])
                with self.assertRaises(ProcessLookupError):
                    os.killpg(process.pid, 0)
                (self.folder / "started").unlink()

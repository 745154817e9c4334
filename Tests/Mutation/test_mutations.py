import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import run
import scripts
import seeded
from seeded import Bug

Answer = tuple[int, dict[str, object]]
"""The exit code of a simulation, and its report."""

ALL = [*seeded.BUGS, *scripts.BUGS]
PROMISE = 'public enum Invariant: String {\n    case exclusion\n    case freeLocks = "free-locks"\n}\n'


class Lists(unittest.TestCase):
    def test_every_bug_fits_the_sources_once(self) -> None:
        self.assertEqual(run.problems(ALL), [])

    def test_promises_are_read_by_their_raw_values(self) -> None:
        self.assertEqual(run.promise_names(PROMISE), {"exclusion", "free-locks"})

    def test_bugs_that_do_not_fit_are_reported(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            product = root / run.PRODUCT
            for folder in ("here", "there"):
                (product / folder).mkdir(parents=True)
                (product / folder / "pair.swift").touch()
            (product / run.PROMISES).write_text(PROMISE)
            (product / "here" / "twice.swift").write_text("a b a")
            bugs = [
                Bug("gone", "no.swift", "a", "b", ("exclusion",)),
                Bug("pair", "pair.swift", "a", "b", ("exclusion",)),
                Bug("twice", "twice.swift", "a", "c", ("exclusion",)),
                Bug("same", "twice.swift", "b", "b", ("exclusion",)),
                Bug("empty", "twice.swift", "b", "c", ()),
                Bug("strange", "twice.swift", "b", "c", ("peace",)),
                Bug("strange", "twice.swift", "b", "c", ("exclusion",)),
            ]
            self.assertEqual(
                run.problems(bugs, root),
                [
                    "strange: two bugs have this name",
                    "gone: Sources has no files named no.swift, not one",
                    "pair: Sources has 2 files named pair.swift, not one",
                    "twice: the text to replace occurs 2 times in twice.swift, not once",
                    "same: it changes nothing",
                    "empty: it breaks no promise",
                    "strange: there is no promise peace",
                ],
            )


class Planting(unittest.TestCase):
    def test_a_bug_is_removed_even_after_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as name, unittest.mock.patch.object(run, "TREE", pathlib.Path(name)):
            path = pathlib.Path(name) / run.PRODUCT / "Rules" / "rule.swift"
            path.parent.mkdir(parents=True)
            path.write_text("keep it")
            with (
                contextlib.suppress(run.BuildFailed),
                run.planted(Bug("b", "rule.swift", "keep", "break", ("exclusion",))),
            ):
                self.assertEqual(path.read_text(), "break it")
                raise run.BuildFailed
            self.assertEqual(path.read_text(), "keep it")

    def test_the_copy_follows_the_sources(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            root, tree = pathlib.Path(name) / "root", pathlib.Path(name) / "tree"
            (root / "Sources").mkdir(parents=True)
            (root / "Tests/Mutation").mkdir(parents=True)
            tree.mkdir()
            (root / "Package.swift").write_text("one")
            (root / "Sources/a.swift").write_text("a")
            (root / "Tests/Mutation/list.py").write_text("not built")
            with unittest.mock.patch.multiple(run, ROOT=root, TREE=tree):
                first = run.copy_tree()
                self.assertEqual({path.as_posix() for path in run.files(tree)}, {"Package.swift", "Sources/a.swift"})
                untouched = (tree / "Package.swift").stat().st_mtime_ns
                (root / "Sources/a.swift").unlink()
                (root / "Sources/b.swift").write_text("b")
                self.assertNotEqual(run.copy_tree(), first)
                self.assertEqual({path.as_posix() for path in run.files(tree)}, {"Package.swift", "Sources/b.swift"})
                self.assertEqual((tree / "Package.swift").stat().st_mtime_ns, untouched)


class Verdicts(unittest.TestCase):
    BUG = Bug("b", "rule.swift", "keep", "break", ("exclusion", "free-locks"))

    def judge(self, found: Answer, unchanged: Answer = (0, {})) -> bool:
        """Returns whether the bug counts as found, from the reports on it and on the unchanged product."""
        with unittest.mock.patch.object(run, "simulate", return_value=run.Search(*unchanged, 1.0)):
            return run.verdict(self.BUG, run.Search(*found, 1.0), pathlib.Path("clean"), 120)[0]

    def test_a_listed_promise_counts_as_found(self) -> None:
        self.assertTrue(self.judge((1, {"promise": "free-locks", "seed": 7, "seeds": 7})))

    def test_another_promise_does_not_count(self) -> None:
        self.assertFalse(self.judge((1, {"promise": "limits", "seed": 7, "seeds": 7, "finding": "…"})))

    def test_no_finding_a_timeout_and_a_crash_do_not_count(self) -> None:
        self.assertFalse(self.judge((0, {"seeds": 200})))
        self.assertFalse(self.judge((-run.signal.SIGXCPU, {})))
        self.assertFalse(self.judge((-run.signal.SIGILL, {})))

    def test_a_finding_in_the_unchanged_product_does_not_count(self) -> None:
        found = (1, {"promise": "exclusion", "seed": 7, "seeds": 7})
        self.assertFalse(self.judge(found, unchanged=(1, {"promise": "exclusion", "seed": 7, "seeds": 1})))


class Running(unittest.TestCase):
    def program(self, folder: str, text: str) -> pathlib.Path:
        path = pathlib.Path(folder) / "simulate"
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)
        return path

    def test_the_report_is_the_json_line(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = self.program(
                folder, 'import sys; print(\'{"promise": "limits", "seed": 3, "seeds": 3}\'); sys.exit(1)'
            )
            search = run.simulate(program, "--seeds", "5", timeout=10)
            self.assertEqual((search.code, search.promise, search.report["seed"]), (1, "limits", 3))

    def test_a_search_ends_at_its_time_limit(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertTrue(run.simulate(self.program(folder, "while True: pass"), timeout=1).is_out_of_time)


class CommandLine(unittest.TestCase):
    def call(self, *arguments: str) -> tuple[object, str]:
        output = io.StringIO()
        with (
            unittest.mock.patch.object(sys, "argv", ["run.py", *arguments]),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            try:
                run.main()
                code: object = 0
            except SystemExit as end:
                code = end.code
        return code, output.getvalue()

    def test_check_builds_nothing(self) -> None:
        with unittest.mock.patch.object(run, "build", side_effect=AssertionError):
            code, text = self.call("--check", "--kind", "scripts")
        self.assertEqual((code, text), (0, f"seeded: {len(scripts.BUGS)} bugs, each fits the sources once\n"))

    def test_an_unknown_name_is_rejected(self) -> None:
        code, text = self.call("--check", "--only", "peace")
        self.assertEqual(code, 2)
        self.assertIn("no bug peace", text)


if __name__ == "__main__":
    unittest.main()

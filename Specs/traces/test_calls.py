"""Tests of the reader of calls, and of the translation of replies that no script gives."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

from traces import breakers, calls, groups, limits, locks, quorums, test_breakers, test_limits
from traces.calls import SOURCES, Call, InputError, SkippedError, Unknown

NOW = 1_795_305_600_000_000
LOCK = {"string": "a", "until": NOW // 1000 + 900}
FENCE = {"string": str(NOW - 5), "until": NOW // 1000 + 90_000_000}


def source(name: str) -> str:
    """Returns the text of a script's file."""
    return next(SOURCES.rglob(f"{name}.lua")).read_text(encoding="utf-8")


def read(*entries: Any, unknown: Unknown | None = None) -> list[Call]:
    """Reads a file with these lines; texts stay as they are."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "calls.jsonl")
        texts = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
        path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        return list(calls.read(path, unknown or Unknown()))


def line(script: str, **fields: Any) -> dict[str, Any]:
    """Returns the line of a call."""
    empty: dict[str, Any] = {"keys": [], "args": [], "before": [], "after": [], "reply": 1}
    return {"script": script, "server": "redis", "time": NOW, **empty, **fields}


def call(script: str, args: list[str], reply: Any, before: list[Any]) -> Call:
    """Returns a call that changes nothing."""
    return Call(script, "redis", NOW, [f"k{i}" for i in range(len(before))], args, reply, before, list(before))


class Reading(unittest.TestCase):
    def test_malformed_lines_are_named(self) -> None:
        for text in ("{", "[]", "7", '{"script":"x"}'):
            with self.subTest(text=text), self.assertRaisesRegex(InputError, "calls.jsonl:2: "):
                read({"script": "s", "source": "return 1"}, text)

    def test_a_folder_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(InputError, "Is a directory"):
            list(calls.read(Path(folder), Unknown()))

    def test_calls_of_other_scripts_are_counted(self) -> None:
        unknown = Unknown()
        self.assertEqual(read({"script": "s", "source": "return 1"}, line("s"), line("s"), unknown=unknown), [])
        self.assertEqual((dict(unknown.calls), unknown.changed), ({"return 1": 2}, set()))

    def test_another_version_of_a_file_is_found(self) -> None:
        unknown = Unknown()
        text = source("locks") + source("release").replace("redis.call('DEL', KEYS[1])", "return 7", 1)
        self.assertEqual(read({"script": "s", "source": text}, line("s"), unknown=unknown), [])
        self.assertEqual((dict(unknown.calls), unknown.changed), ({"another version of release.lua": 1}, {"release"}))

    def test_scripts_get_the_names_of_their_files(self) -> None:
        text = source("fenced") + source("fenced-release")
        self.assertEqual([call.script for call in read({"script": "s", "source": text}, line("s"))], ["fenced-release"])

    def test_messages_and_errors_of_a_script_are_read(self) -> None:
        text = {"script": "s", "source": source("release")}
        (found,) = read(text, line("s", published=[["c", "m", 0]], refused=["OOM"]))
        self.assertEqual((found.published, found.refused), ([["c", "m", 0]], ["OOM"]))


class Errors(unittest.TestCase):
    def test_only_errors_of_the_server_are_refusals(self) -> None:
        text = "command not allowed when used memory > 'maxmemory'."
        for error, refusal in (
            (f"OOM {text}", True),
            (f"OOM {text} script: abc, on @user_script:9.", True),
            (f"ERR Error running script (call to f_abc): @user_script:9: @user_script: 9: -OOM {text}", True),
            ("READONLY You can't write against a read only replica.", True),
            ("ERR Script attempted to access a non local key in a cluster node", True),
            ("ERR Error running script abc, user_script:9: attempt to index a nil value", False),
            ("ERR user_script:9: a text with OOM in it", False),
            ("ERR value is not an integer or out of range", False),
        ):
            with self.subTest(error=error):
                self.assertEqual(bool(calls.REFUSAL.match(error)), refusal)

    def test_a_script_must_not_fail(self) -> None:
        error = {"error": "ERR user_script:9: attempt to index a nil value"}
        breaker = test_breakers.legal()["trip"]
        for encoder, failed in (
            (locks, call("renew", ["a", "5000"], error, [LOCK])),
            (locks, call("inspect", ["a", "100", "wake:", "10000"], error, [LOCK, FENCE, None, None, None, None])),
            (groups, call("share-renew", ["a", "5000"], error, [None, None, None, None, None])),
            (quorums, call("quorum-acquire", ["a", "500", "take"], error, [None, None])),
            (breakers, call(breaker.script, breaker.args, error, breaker.before)),
            (limits, call("peek", ["0", "3", "3", "200"], error, [None])),
            (limits, call("peek", ["0", "3", "3", "200"], {"error": "WRONGTYPE"}, [None])),
        ):
            with self.subTest(script=failed.script):
                self.assertIn("unexpected", calls.translate(encoder.encode, failed))

    def test_a_key_of_another_type_explains_an_error(self) -> None:
        error = {"error": "WRONGTYPE Operation against a key holding the wrong kind of value"}
        other = {"hash": [["a", "1"]]}
        breaker = test_breakers.legal()["trip"]
        for encoder, failed in (
            (locks, call("leave", ["t", "wake:", "a"], error, [LOCK, FENCE, None, other, None])),
            (quorums, call("quorum-acquire", ["a", "500", "take"], error, [other, None])),
            (breakers, call(breaker.script, breaker.args, error, [LOCK, *breaker.before[1:]])),
            (limits, call("peek", ["0", "3", "3", "200"], error, [other])),
        ):
            with self.subTest(script=failed.script), self.assertRaises(SkippedError):
                calls.translate(encoder.encode, failed)


class Shapes(unittest.TestCase):
    def test_a_reply_of_another_shape_is_unexpected(self) -> None:
        breaker = test_breakers.legal()["trip"]
        group = [{"string": f"shared/{'a' * 32}", "until": NOW // 1000 + 900}, FENCE, None]
        for encoder, wrong in (
            (locks, call("renew", ["a", "5000"], [1], [LOCK])),
            (locks, call("acquire", ["a", "5000", "wake:", "0"], [0, 900, "1"], [LOCK, FENCE, None])),
            (locks, call("acquire", ["a", "5000", "wake:", "0"], "granted", [LOCK, FENCE, None])),
            (locks, call("lease-state", ["a", "7"], [900, 900], [LOCK, FENCE, None, None])),
            (locks, call("lease-state", ["a", "7"], 900, [LOCK, FENCE, None, None])),
            (locks, call("inspect", ["a", "100", "wake:", "10000"], [[]], [LOCK, FENCE, None, None, None, None])),
            (groups, call("release", ["a", "wake:", "b"], [1, 0], group)),
            (quorums, call("quorum-acquire", ["a", "500", "take"], 7, [None, None])),
            (quorums, call("quorum-acquire", ["a", "500", "take"], [1, "x"], [None, None])),
            (quorums, call("quorum-inspect", [], ["a", "x", None], [None, None])),
            (breakers, call(breaker.script, breaker.args, 1, breaker.before)),
            (breakers, call(breaker.script, breaker.args, ["1", NOW // 1000, []], breaker.before)),
            (limits, call("peek", ["0", "3", "3", "200"], 7, [None])),
            (limits, call("refund", ["0", "1", "9", "3", "200", "3"], [1], [None])),
            (limits, call("take", test_limits.FIRST.args, "x", [None])),
        ):
            with self.subTest(script=wrong.script, reply=wrong.reply):
                self.assertIn("unexpected", calls.translate(encoder.encode, wrong))

    def test_a_script_that_leaves_another_type_is_unexpected(self) -> None:
        wrong = call("breaker-trip", test_breakers.legal()["trip"].args, 1, test_breakers.legal()["trip"].before)
        wrong.after = [LOCK, *wrong.after[1:]]
        self.assertIn("unexpected", calls.translate(breakers.encode, wrong))

    def test_arguments_that_cannot_be_read_are_no_step(self) -> None:
        with self.assertRaisesRegex(InputError, "quorum-acquire"):
            calls.translate(quorums.encode, call("quorum-acquire", ["a"], [0, -2, 1], [None, None]))

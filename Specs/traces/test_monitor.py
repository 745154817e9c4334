"""Tests of the reader of MONITOR, of its replica and of the relay's parser."""

from __future__ import annotations

import contextlib
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

from traces import monitor
from traces.calls import SOURCES, Call, InputError, Unknown
from traces.record import Messages
from traces.replica import Replica

LOCK, FENCE = "interlock:lock:{lock-0}", "interlock:fence:{lock-0}"
KEYS = f'"2" "{LOCK}" "{FENCE}"'
ACQUIRE = "021a92c390973be4d4fbc7b13d6ecce74fdb5589"
# Recorded with Redis 7.0.15.
GRANT = f"""\
1796100896.983475 [0 127.0.0.1:53094] "EVALSHA" "{ACQUIRE}" {KEYS} "own-0" "150" "take"
1796100896.983504 [0 lua] "GET" "{LOCK}"
1796100896.983511 [0 lua] "GET" "{FENCE}"
1796100896.983520 [0 lua] "TIME"
1796100896.983528 [0 lua] "TIME"
1796100896.983544 [0 lua] "SET" "{FENCE}" "1796100896983520" "PX" "86400000"
1796100896.983554 [0 lua] "SET" "{LOCK}" "own-0" "PX" "150"
"""
HELD = f"""\
1796100897.015939 [0 127.0.0.1:53090] "EVALSHA" "{ACQUIRE}" {KEYS} "own-2" "400" "take"
1796100897.015971 [0 lua] "GET" "{LOCK}"
1796100897.016036 [0 lua] "PTTL" "{LOCK}"
1796100897.016054 [0 lua] "GET" "{FENCE}"
"""
END = '1796100899.000000 [0 127.0.0.1:53094] "PING"\n'


def record(text: str, replies: list[dict[str, Any]] | None = None) -> tuple[list[Call], monitor.Recording]:
    """Reads a recording in which the script has been loaded before the given lines."""
    with tempfile.TemporaryDirectory() as folder:
        path, recorded = Path(folder, "redis.monitor"), Path(folder, "redis.replies")
        path.write_text(text + END, encoding="latin-1")
        recorded.write_text("".join(json.dumps(reply) + "\n" for reply in replies or []), encoding="utf-8")
        recording = monitor.Recording(path, recorded if replies is not None else None, Unknown())
        source = (SOURCES / "Locks" / "Quorum" / "quorum-acquire.lua").read_text(encoding="utf-8")
        recording.reader.scripts[ACQUIRE] = source
        return list(recording.calls()), recording


def read(text: str, replies: list[dict[str, Any]] | None = None) -> list[Call]:
    """Returns the calls of such a recording."""
    return record(text, replies)[0]


def reply(port: int, text: str, value: Any) -> dict[str, Any]:
    """Returns the entry of record.py for the first line of a text."""
    return {"port": port, "request": monitor.parse(text.splitlines()[0]).args, "reply": value}


class Lines(unittest.TestCase):
    def test_arguments_are_unescaped(self) -> None:
        command = monitor.parse(r'1796100862.381926 [3 unix:/run/r.sock] "EVALSHA" "\xdd\x00\a\b\n\"\\x" ""')
        self.assertEqual(command.time, 1796100862381926)
        self.assertEqual((command.database, command.source), (3, "unix:/run/r.sock"))
        self.assertEqual(command.args, ["EVALSHA", '\xdd\x00\a\b\n"\\x', ""])

    def test_other_lines_are_refused(self) -> None:
        for line in ("", "ERR", '1796100862.381926 [0 lua] "GET', '1796100862.381926 [0 lua] "GET"x'):
            with self.subTest(line=line), self.assertRaises(ValueError):
                monitor.parse(line)

    def test_an_incomplete_last_line_is_left_out(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "redis.monitor")
            path.write_text("OK\n" + END + END[:30], encoding="latin-1")
            self.assertEqual([command.name for command in monitor.commands(path)], ["PING"])


class Calls(unittest.TestCase):
    def test_a_grant(self) -> None:
        (call,) = read(GRANT)
        self.assertEqual((call.script, call.args, call.has_reply), ("quorum-acquire", ["own-0", "150", "take"], False))
        # The clock is what the script wrote.
        self.assertEqual(call.time, 1796100896983520)
        self.assertEqual(call.before, [None, None])
        self.assertEqual(call.after[0], {"string": "own-0", "until": 1796100896983 + 150})
        self.assertEqual(call.after[1], {"string": "1796100896983520", "until": 1796100896983 + 86400000})

    def test_replies_are_joined_by_port_and_order(self) -> None:
        other = HELD.replace("53090", "53094").replace("897.01", "897.02")
        granted, held = reply(53094, GRANT, [1, 1796100896983520]), reply(53094, other, [0, 107, 0])
        rejected = {"port": 53094, "request": ["EVAL", "", "0"], "reply": {"error": "LOADING"}}
        calls = read(GRANT + HELD + other, [rejected, granted, held])
        self.assertEqual([call.reply for call in calls], [[1, 1796100896983520], None, None])
        self.assertEqual([call.has_reply for call in calls], [True, False, False])

    def test_replies_that_do_not_match_are_counted(self) -> None:
        first, other = reply(53094, GRANT, [1, 1]), reply(53094, HELD, [0, 1, 0])
        calls, recording = record(GRANT + GRANT, [other, first])
        self.assertEqual([call.reply for call in calls], [[1, 1], None])
        self.assertEqual(recording.notes(), {"call without a reply": 1, "reply without a call": 1})
        self.assertFalse(recording.reader.replies.is_complete)

    def test_replies_of_another_port_are_counted(self) -> None:
        recording = record(GRANT, [reply(1, GRANT, [1, 1])])[1]
        self.assertEqual(recording.notes(), {"call without a reply": 1, "reply without a call": 1})

    def test_the_last_call_may_be_incomplete(self) -> None:
        last = GRANT.splitlines(keepends=True)[0]
        with tempfile.TemporaryDirectory() as folder:
            path, recorded = Path(folder, "redis.monitor"), Path(folder, "redis.replies")
            path.write_text(last, encoding="latin-1")
            recorded.write_text(json.dumps(reply(53094, GRANT, [1, 1])) + "\n", encoding="utf-8")
            recording = monitor.Recording(path, recorded, Unknown())
            self.assertEqual(list(recording.calls()), [])
        self.assertTrue(recording.reader.replies.is_complete)

    def test_a_recording_without_replies_is_complete(self) -> None:
        self.assertTrue(record(GRANT)[1].reader.replies.is_complete)

    def test_messages_are_shown_without_receivers(self) -> None:
        (call,) = read(GRANT + '1796100896.983555 [0 lua] "PUBLISH" "wake:a" "{}"\n')
        self.assertEqual((call.published, call.refused), ([("wake:a", "{}", None)], None))

    def test_replies_show_whether_memory_was_left(self) -> None:
        error = {"port": 1, "request": ["EVAL", "", "0"], "reply": {"error": "OOM command not allowed"}}
        granted = reply(53094, GRANT, [1, 1])
        self.assertEqual(read(GRANT, [granted])[0].refused, [])
        self.assertEqual(read(GRANT, [granted, error])[0].refused, None)

    def test_files_that_are_no_recording_are_named(self) -> None:
        key = '1796100896.000001 [0 127.0.0.1:1] "APPEND" "k" "x"\n'
        for text, message in (("hello\n", "redis.monitor:1: not a line"), (END + key, "redis.monitor:2: .*APPEND")):
            with self.subTest(text=text), self.assertRaisesRegex(InputError, message):
                read(text)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(InputError, "Is a directory"):
                list(monitor.Recording(Path(folder), None, Unknown()).calls())
            Path(folder, "replies").write_text("{", encoding="utf-8")
            with self.assertRaisesRegex(InputError, "replies:1: "):
                monitor.Replies(Path(folder, "replies"))

    def test_a_reply_with_a_doubtful_time_is_left_out(self) -> None:
        # The ms changed between GET and PTTL: Redis may have read the clock for PTTL in either.
        self.assertFalse(read(GRANT + HELD, [reply(53090, HELD, [0, 118, 0])])[1].has_reply)
        surely = HELD.replace("897.015", "897.016").replace("016036", "016990")
        call = read(GRANT + surely, [reply(53090, surely, [0, 117, 0])])[1]
        self.assertEqual(call.reply, [0, 117, 0])
        self.assertEqual(call.remaining(call.before[0] or {}), 117)

    def test_the_clock_stands_still_during_a_call(self) -> None:
        call = read(GRANT.replace("983554", "984001"))[0]
        self.assertEqual(call.remaining(call.after[0] or {}), 150)

    def test_a_reply_about_a_key_that_the_script_has_set_a_ms_ago_is_left_out(self) -> None:
        for at, has_reply in (("984001", False), ("983600", True)):
            text = GRANT + f'1796100896.{at} [0 lua] "PTTL" "{LOCK}"\n'
            with self.subTest(at=at):
                self.assertEqual(read(text, [reply(53094, GRANT, [0, 149, 0])])[0].has_reply, has_reply)

    def test_a_key_ends_when_its_time_has_passed(self) -> None:
        again = GRANT.replace("896.98", "897.18")
        self.assertEqual(read(GRANT + again)[1].before[0], None)

    def test_the_commands_tell_whether_a_key_had_ended(self) -> None:
        # By MONITOR's clock, the lock lasts until .433. Other calls have shown both paths.
        both = "".join(
            text.replace("1796100896", str(1796100800 + i)).replace("1796100897", str(1796100801 + i))
            for i in range(monitor.AGREEING)
            for text in (GRANT, HELD.replace("897.01", "896.99"))
        )
        both += GRANT.replace("896.98", "897.28")
        for at, path, is_there in (("897.433", HELD, True), ("897.434", HELD, True), ("897.434", GRANT, False)):
            text = path.replace("896.983", at).replace("897.015", at).replace("897.016", at)
            with self.subTest(at=at, is_there=is_there):
                call = read(both + text)[-1]
                self.assertEqual(call.before[0] is not None, is_there)
                self.assertFalse(call.is_doubtful)
                if is_there:
                    self.assertGreaterEqual(call.remaining(call.before[0] or {}) or 0, 0)

    def test_a_key_that_ends_during_a_call(self) -> None:
        # Redis stopped between the request and the commands of the script, while the lock ended at .133.
        first, *rest = GRANT.replace("own-0", "own-1").splitlines(keepends=True)
        again = first.replace("896.98", "897.10") + "".join(rest).replace("896.98", "897.20").replace(
            "896.97", "897.20"
        )
        calls, recording = record(GRANT + again + HELD.replace("897.0", "897.3"))
        self.assertEqual([call.is_doubtful for call in calls], [False, True, False])
        self.assertEqual((calls[2].before[0] or {})["string"], "own-1")
        self.assertEqual(recording.notes(), {"key that ended during the call, so the call is skipped": 1})

    def test_few_calls_do_not_tell_whether_a_key_had_ended(self) -> None:
        both = GRANT + HELD + GRANT.replace("896.98", "897.28") + HELD.replace("897.01", "897.30")
        calls, recording = record(both + HELD.replace("897.015", "897.434").replace("897.016", "897.434"))
        self.assertTrue(calls[-1].is_doubtful)
        self.assertEqual(
            recording.notes(), {"key that ended at the call, decided by MONITOR's clock, so the call is skipped": 1}
        )

    def test_an_unknown_script(self) -> None:
        line = '1796100896.000001 [0 127.0.0.1:1] "EVALSHA" "ffff" "0"\n'
        self.assertEqual(read(line), [])
        with self.assertRaisesRegex(InputError, "loaded before"):
            read(line + '1796100896.000002 [0 lua] "TIME"\n')

    def test_a_loaded_script_gets_its_name(self) -> None:
        source = (SOURCES / "Locks" / "Quorum" / "quorum-break.lua").read_text(encoding="utf-8")
        text = source.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        line = f'1796100896.000001 [0 127.0.0.1:1] "EVAL" "local x = 1\\n{text}" "1" "{LOCK}" ""\n'
        self.assertEqual([call.script for call in read(line)], ["quorum-break"])


class Keys(unittest.TestCase):
    def apply(self, *lines: str, now: int = 1000) -> Replica:
        replica = Replica()
        for line in lines:
            replica.apply(line.split(), now)
        return replica

    def test_strings(self) -> None:
        show = self.apply("SET k a PX 10", "SET k b NX", "SET l 1 XX", "SET k c KEEPTTL", "SET n 4", "DECRBY n 1").show
        self.assertEqual(show("k"), {"string": "c", "until": 1010})
        self.assertEqual((show("l"), show("n")), (None, {"string": "3"}))
        show = self.apply("SET k a PXAT 1500", "INCRBY k 1", "SET m 1 EX 2", "PEXPIREAT m 900").show
        self.assertEqual((show("k"), show("m")), ({"string": "a", "until": 1500}, None))

    def test_hashes_and_sorted_sets(self) -> None:
        show = self.apply("HSET h a 1 b 2", "HINCRBY h a -3", "HDEL h b c", "HSET g a 1", "HDEL g a").show
        self.assertEqual((show("h"), show("g")), ({"hash": [["a", "-2"]]}, None))
        show = self.apply("ZADD z 2 b 1 c 2 a 9 d 0.5 e", "ZPOPMIN z", "ZREM z x", "ZREMRANGEBYSCORE z (2 +inf").show
        self.assertEqual(show("z"), {"zset": [["c", "1"], ["a", "2"], ["b", "2"]]})

    def test_a_command_on_another_type_changes_nothing(self) -> None:
        show = self.apply("ZADD z 1 a", "HSET z a 1", "INCRBY z 1", "SET z 1 GET").show
        self.assertEqual(show("z"), {"zset": [["a", "1"]]})

    def test_unknown_commands_and_options_are_refused(self) -> None:
        for line in ("APPEND k x", "SET k x PXZ 1", "ZADD z NX 1 a"):
            with self.subTest(line=line), self.assertRaises(ValueError):
                self.apply(line)


class Relay(unittest.TestCase):
    def test_messages_are_split_anywhere(self) -> None:
        data = b"*3\r\n:1\r\n$-1\r\n$3\r\na\r\n\r\n+OK\r\n-ERR x\r\n*-1\r\n*0\r\n"
        expected = [[1, None, "a\r\n"], {"status": "OK"}, {"error": "ERR x"}, None, []]
        for cut in range(len(data)):
            messages = Messages()
            self.assertEqual(messages.feed(data[:cut]) + messages.feed(data[cut:]), expected)

    def test_resp3_is_refused(self) -> None:
        with contextlib.suppress(ValueError):
            Messages().feed(b"%1\r\n+a\r\n:1\r\n")
            self.fail("accepted")

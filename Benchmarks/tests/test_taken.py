import unittest

from figures import taken
from rig.monitor import commands, words_of
from rig.traces import SECOND

LINES = [
    b'+1700000000.000100 [0 127.0.0.1:5] "PING" "rate:{a}"',
    b'+1700000000.000200 [0 lua] "TIME"',
    b'+1700000000.000210 [0 lua] "MGET" "interlock:rate:{a}:1s"',
    b'+1700000000.000230 [0 lua] "SET" "interlock:rate:{a}:1s" "3" "PX" "1000"',
    b'+1700000000.000240 [0 127.0.0.1:5] "EVALSHA" "x" "1" "interlock:rate:{a}:1s"',
    b'+1700000000.500000 [0 lua] "INCRBY" "interlock:rate:{a}:1s" "2"',
    b'+1700000001.200000 [0 lua] "SET" "interlock:rate:{a}:1s" "1" "PX" "1000"',
    b'+1700000001.200000 [0 lua] "SET" "interlock:rate:{b}:1s" "1" "PX" "1000"',
]
BEGIN = 1_700_000_000 * SECOND


class TakenTest(unittest.TestCase):
    def test_commands_of_a_script_have_the_time_that_it_read(self) -> None:
        commands_run = commands(LINES, b"rate:{a}")
        self.assertEqual([at - BEGIN for at, _ in commands_run], [200_000, 200_000, 500_000_000, 1_200_000_000])

    def test_words_are_unquoted(self) -> None:
        self.assertEqual(words_of(rb'"SET" "a b" "\"\\\xff\n"'), [b"SET", b"a b", b'"\\\xff\n'])

    def test_a_fixed_counter_lives_from_one_set_to_the_next(self) -> None:
        lives = taken.fixed(commands(LINES, b"rate:{a}"))
        self.assertEqual([[cost for _, cost in life] for life in lives], [[3, 2], [1]])

    def test_a_counter_that_counts_refused_calls_grants_the_first_ones_of_each_life(self) -> None:
        commands_run = [
            (1, [b"incrby", b"k", b"1"]),
            (2, [b"expire", b"k", b"1"]),
            (3, [b"incrby", b"k", b"1"]),
            (4, [b"incrby", b"k", b"1"]),
            (5, [b"incrby", b"k", b"1"]),
            (6, [b"expire", b"k", b"1"]),
        ]
        self.assertEqual(taken.counted(commands_run, 2), [[(1, 1), (3, 1)], [(5, 1)]])

    def test_a_push_grants_as_many_as_it_pushes(self) -> None:
        commands_run = [
            (1, [b"lindex", b"k", b"9"]),
            (1, [b"lpush", b"k", b"0.5", b"0.5"]),
            (1, [b"ltrim", b"k", b"0", b"9"]),
        ]
        self.assertEqual(taken.pushed(commands_run), [(1, 2)])

    def test_an_entry_of_a_log_contains_its_time(self) -> None:
        words = [b"HSET", b"k", b"head", b"1", b"last", b"1700000000000003", b"7", b"1700000000000003:4"]
        self.assertEqual(taken.sliding([(5, [b"HMGET", b"k", b"1"]), (9, words)]), [(BEGIN + 3000, 4)])

    def test_an_arrival_time_increases_by_a_spacing_for_each_unit(self) -> None:
        def reached(text: bytes) -> list[bytes]:
            return [b"SET", b"k", text, b"PX", b"30"]

        commands_run = [
            (BEGIN + 7000, reached(b"1700000000020005")),
            (BEGIN + 9000, reached(b"1700000000030005:1")),
            (BEGIN + SECOND, reached(b"1700000001010000")),
        ]
        self.assertEqual([cost for _, cost in taken.smooth(commands_run, 100, SECOND)], [2, 1, 1])


if __name__ == "__main__":
    unittest.main()

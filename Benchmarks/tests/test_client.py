import unittest

from rig.client import Replies, encode


class RepliesTest(unittest.TestCase):
    STREAM = b"*5\r\n:1\r\n:100\r\n:0\r\n:-1\r\n$4\r\na\r\nb\r\n+OK\r\n$-1\r\n*0\r\n"
    PARSED: tuple[object, ...] = ([1, 100, 0, -1, b"a\r\nb"], b"OK", None, [])

    def test_replies_are_parsed_however_the_bytes_are_split(self) -> None:
        for size in range(1, len(self.STREAM) + 1):
            replies = Replies()
            parsed: list[object] = []
            for begin in range(0, len(self.STREAM), size):
                parsed += replies.feed(self.STREAM[begin : begin + size])
            self.assertEqual(tuple(parsed), self.PARSED, f"in pieces of {size}")

    def test_an_error_is_raised(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "INVALID no such service"):
            Replies().feed(b"-INVALID no such service\r\n")

    def test_a_command_is_encoded_with_the_length_of_its_bytes(self) -> None:
        self.assertEqual(encode("LIMIT.TAKE", "ö", 7), b"*3\r\n$10\r\nLIMIT.TAKE\r\n$2\r\n\xc3\xb6\r\n$1\r\n7\r\n")


if __name__ == "__main__":
    unittest.main()

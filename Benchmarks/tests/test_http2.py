import socket
import unittest

from rig import http2
from rig.http2 import Streams, fields, frame


class FrameTest(unittest.TestCase):
    def test_a_frame_has_its_length_kind_flags_and_stream(self) -> None:
        self.assertEqual(frame(http2.PING, http2.ACK, 0, b"12345678"), b"\0\0\x08\6\1\0\0\0\x0012345678")
        self.assertEqual(frame(http2.HEADERS, 5, 3, bytes(70_000))[:9], b"\x01\x11\x70\1\5\0\0\0\3")

    def test_fields_name_method_scheme_path_and_authority(self) -> None:
        self.assertEqual(fields("/a", ("k", "v")), b"\x82\x86\x04\x02/a\x01\tlocalhost\0\1k\1v")


class StreamsTest(unittest.TestCase):
    def setUp(self) -> None:
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        self.streams = Streams(server.getsockname()[1], fields("/"), 3)
        self.addCleanup(self.streams.socket.close)
        self.streams.begin()

    def test_as_many_streams_start_as_are_allowed(self) -> None:
        self.assertEqual((self.streams.in_flight, self.streams.next), (3, 7))

    def test_ended_streams_are_counted_however_their_bytes_are_split(self) -> None:
        answer = frame(http2.HEADERS, http2.END_HEADERS, 1, b"\x88") + frame(
            http2.DATA, http2.END_STREAM, 1, bytes(100)
        )
        reset = frame(http2.RESET, 0, 3, bytes(4))
        for byte in answer + reset:
            self.assertTrue(self.streams.take(bytes([byte])))
        self.assertEqual(self.streams.in_flight, 1)

    def test_settings_are_acknowledged_and_goaway_ends_the_connection(self) -> None:
        self.streams.out = b""
        self.assertTrue(self.streams.take(frame(http2.SETTINGS)))
        self.assertEqual(self.streams.out, frame(http2.SETTINGS, http2.ACK))
        self.assertFalse(self.streams.take(frame(http2.GOAWAY, 0, 0, bytes(8))))


if __name__ == "__main__":
    unittest.main()

import socket
import threading
import time
import unittest

from rig import web

ANSWER = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 3\r\n\r\nabc"


class ParseTest(unittest.TestCase):
    def test_an_answer_is_complete_with_its_body(self) -> None:
        for length in range(len(ANSWER)):
            self.assertIsNone(web.parse(ANSWER[:length]), length)
        self.assertEqual(web.parse(ANSWER), web.Answer(200, b"abc"))

    def test_an_answer_of_unknown_length_is_an_error(self) -> None:
        with self.assertRaises(RuntimeError):
            web.parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    def test_a_request_with_a_body_has_its_length(self) -> None:
        self.assertEqual(web.request("GET", "/"), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertTrue(web.request("POST", "/a", b"{}").endswith(b"\r\nContent-Length: 2\r\n\r\n{}"))


class SlowServer:
    """Answers each request after a pause, except for the first of each connection."""

    def __init__(self, pause: float, answer: bytes = ANSWER) -> None:
        self.pause = pause
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        is_first = True
        with connection:
            while connection.recv(1 << 16):
                time.sleep(0 if is_first else self.pause)
                connection.sendall(ANSWER if is_first else self.answer)
                is_first = False


class PlayTest(unittest.TestCase):
    def play(self, server: SlowServer, times: list[int], connections: int) -> web.LoopResult:
        self.addCleanup(server.listener.close)
        return web.play(server.port, web.request("GET", "/"), times, connections)

    def test_a_latency_counts_from_when_a_request_was_due(self) -> None:
        played = self.play(SlowServer(0.05), [0, 0, 0], connections=1)
        self.assertGreaterEqual(played.p50, 100_000)
        self.assertGreaterEqual(played.p99, 150_000)
        self.assertEqual(played.queued, 2 / 3)

    def test_no_request_waits_while_a_connection_is_free(self) -> None:
        played = self.play(SlowServer(0.05), [0, 0, 0], connections=3)
        self.assertGreaterEqual(played.p50, 50_000)
        self.assertLess(played.p50, 100_000)
        self.assertEqual(played.queued, 0)

    def test_a_refusal_is_counted(self) -> None:
        refusal = ANSWER.replace(b"200", b"503")
        self.assertEqual(self.play(SlowServer(0, refusal), [0, 0], connections=2).refused, 2)


if __name__ == "__main__":
    unittest.main()

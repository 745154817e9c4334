import http.server
import json
import threading
import unittest
from typing import Any, TypeVar

from peers.http_locks import EtcdLock, InterlockLock

T = TypeVar("T", EtcdLock, InterlockLock)


class Server(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        #: Status and body, by path.
        self.answers: dict[str, tuple[int, object]] = {}
        #: (method, path, body, lease token) of each request.
        self.requests: list[tuple[str, str, Any, str | None]] = []


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by path, and records the requests."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        assert isinstance(self.server, Server)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(
            (self.command, self.path, json.loads(body) if body else None, self.headers["Lease-Token"])
        )
        status, answer = self.server.answers[self.path]
        text = b"" if answer is None or self.command == "DELETE" else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_: object) -> None:
        pass


class HTTPLocksTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def lock(self, kind: type[T], lease: int) -> T:
        lock = kind(self.server.server_port, "abc", lease)
        self.addCleanup(lock.client.connection.close)
        return lock

    def test_etcds_lock_is_acquired_in_a_session_and_released_by_its_key(self) -> None:
        self.server.answers = {
            "/v3/lease/grant": (200, {"ID": "7"}),
            "/v3/lock/lock": (200, {"key": "a2V5"}),
            "/v3/lock/unlock": (200, {}),
        }
        lock = self.lock(EtcdLock, 60)
        lock.acquire()
        lock.release()
        self.assertEqual(
            [body for _, _, body, _ in self.server.requests],
            [{"TTL": 60}, {"name": "YWJj", "lease": "7"}, {"key": "a2V5"}],
        )

    def test_interlocks_lock_is_released_by_its_token(self) -> None:
        self.server.answers = {"/healthz": (200, None), "/v1/locks/abc": (201, {"token": "t"})}
        lock = self.lock(InterlockLock, 10)
        lock.acquire()
        lock.release()
        self.assertEqual(
            self.server.requests[1:],
            [
                ("POST", "/v1/locks/abc", {"ttl_ms": 10_000, "wait_ms": 60_000}, None),
                ("DELETE", "/v1/locks/abc", None, "t"),
            ],
        )

    def test_an_error_contains_the_response(self) -> None:
        self.server.answers = {"/healthz": (200, None), "/v1/locks/abc": (409, {"title": "held"})}
        lock = self.lock(InterlockLock, 10)
        with self.assertRaisesRegex(RuntimeError, "POST /v1/locks/abc answered 409: .*held"):
            lock.acquire()


if __name__ == "__main__":
    unittest.main()

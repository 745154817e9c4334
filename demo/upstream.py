"""The API behind the sidecars: a small HTTP server in this process. The demo sets how it behaves."""

import http.server
import threading
import time
from collections.abc import Callable

Behavior = tuple[int, dict[str, str], str]
"""How the server answers a call: status, headers, body."""

GOOD: Behavior = (200, {}, "one book")
FAILING: Behavior = (500, {}, "something broke")
BUSY: Behavior = (503, {"Retry-After": "3"}, "come back later")
#: Texts of its status page, which always has status 200.
UP = "ok"
MAINTENANCE = "down for maintenance"


class Upstream:
    def __init__(self, on_probe: Callable[[int, str], object]) -> None:
        """`on_probe` gets the client's port and the body, for each request of the status page."""
        self.on_probe = on_probe
        self.behavior = GOOD
        self.page = UP
        #: Epoch seconds of each call, and of each request of the status page.
        self.calls: list[float] = []
        self.probes: list[float] = []
        self.server = Server(("127.0.0.1", 0), handler(self))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_port

    def answer(self, path: str, client_port: int) -> Behavior:
        if path != "/status":
            self.calls.append(time.time())
            return self.behavior
        self.probes.append(time.time())
        self.on_probe(client_port, self.page)
        return (200, {}, self.page)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    #: Some acts send calls at the same moment.
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Silent: a caller may leave before the response."""


def handler(upstream: Upstream) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are two packets. With Nagle's algorithm the second waits for an acknowledgement of the first.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            status, headers, body = upstream.answer(self.path, self.client_address[1])
            content = f"{body}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Silent: the sidecars' logs show the calls."""

    return Handler

"""The API that is called: a small HTTP server of this process, which behaves as it is told."""

import http.server
import threading
import time

#: How it may answer calls: status, headers, body.
GOOD = (200, {}, "one book")
FAILING = (500, {}, "something broke")
BUSY = (503, {"Retry-After": "3"}, "come back later")
#: What its status page may say, always with 200.
UP = "ok"
MAINTENANCE = "down for maintenance"


class Upstream:
    def __init__(self, on_probe):
        """`on_probe` is told the client's port and the body that it got, of each look at the status page."""
        self.on_probe = on_probe
        self.behaviour = GOOD
        self.page = UP
        #: The epoch seconds of every call, and of every look at the status page.
        self.calls, self.probes = [], []
        self.server = Server(("127.0.0.1", 0), handler(self))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server.server_port

    def answer(self, path, client_port):
        if path != "/status":
            self.calls.append(time.time())
            return self.behaviour
        self.probes.append(time.time())
        self.on_probe(client_port, self.page)
        return (200, {}, self.page)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    #: Calls that come at once.
    request_queue_size = 128

    def handle_error(self, *_):
        """A caller that left before its answer is nothing to tell of."""


def handler(upstream):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are two packets: without it the second waits for an acknowledgement of the first.
        disable_nagle_algorithm = True

        def do_GET(self):
            status, headers, body = upstream.answer(self.path, self.client_address[1])
            content = f"{body}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Says nothing: the sidecars' logs and the callers tell enough."""

    return Handler

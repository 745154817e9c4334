"""Proxies in front of the HTTP API that speak HTTP/2 to it and HTTP/1.1 to their own clients.

HAProxy and nghttpx send `host` instead of `:authority` if their client sent `Host` (RFC 9113, section 8.3.1).
"""

import http.client
import json
from collections.abc import Callable
from pathlib import Path

from parts import HTTP, Part, expect, find_program, sidecar
from servers import Servers, free_ports, is_open

#: More than HTTP/2's initial flow-control windows.
LARGE = 300_000
SERVICES = '  shop: { url: "http://127.0.0.1:8080" }\n'
HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
listen front
    bind 127.0.0.1:{port}
    server sidecar 127.0.0.1:{sidecar} proto h2
"""


def haproxy(servers: Servers, port: int) -> list[str]:
    file = servers.folder / "haproxy.cfg"
    file.write_text(HAPROXY.format(port=port, sidecar=servers.ports[HTTP]))
    return [find_program("haproxy", "haproxy"), "-db", "-f", str(file)]


def nghttpx(servers: Servers, port: int, backend: str = "") -> list[str]:
    program = find_program("nghttpx", "nghttp2-proxy")
    log = servers.folder / "nghttpx.log"
    endpoints = [f"--frontend=127.0.0.1,{port};no-tls", f"--backend=127.0.0.1,{servers.ports[HTTP]};;proto=h2{backend}"]
    return [program, "--insecure", "--conf=/dev/null", "--workers=1", f"--errorlog-file={log}", *endpoints]


def nghttpx_encrypted(servers: Servers, port: int) -> list[str]:
    """Over TLS, nghttpx serves no request if its backend does not negotiate h2."""
    return nghttpx(servers, port, backend=";tls")


class ProxyClient:
    """Requests to a proxy over one connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def request(self, method: str, path: str, body: object = None, **fields: str) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        self.connection.request(method, path, data, {**headers, **named})
        answer = self.connection.getresponse()
        return answer.status, answer.read()


def check(start: Callable[[Servers, int], list[str]], is_encrypted: bool = False) -> Callable[[Path], None]:
    """Returns the check of a proxy. `start` returns the command that starts it on a port."""

    def run(binary: Path) -> None:
        with sidecar(binary, SERVICES, is_encrypted=is_encrypted) as servers:
            [port] = free_ports(1)
            servers.start(*start(servers, port))
            servers.wait_until("the proxy listens", lambda: is_open(port))
            check_requests(ProxyClient(port))
            check_stream(port)

    return run


def check_requests(proxy: ProxyClient) -> None:
    status, body = proxy.request("GET", "/healthz")
    expect(status == 200, f"GET /healthz: {status} {body!r}")
    status, body = proxy.request("POST", "/v1/locks/orders", {"ttl_ms": 30_000})
    expect(status == 201, f"a lock: {status} {body!r}")
    token = json.loads(body)["token"]
    status, body = proxy.request("POST", "/v1/locks/orders", {"ttl_ms": 30_000})
    expect(status == 409, f"the same lock: {status} {body!r}")
    status, body = proxy.request("DELETE", "/v1/locks/orders", Lease_Token=token)
    expect(status == 204, f"its release: {status} {body!r}")
    statuses = [proxy.request("POST", "/v1/limits/catalog/take", {})[0] for _ in range(4)]
    expect(statuses == [200, 200, 200, 429], f"four takes of a limit of three: {statuses}")
    status, body = proxy.request("GET", "/proxy/shop/items?page=2")
    expect(status == 200 and json.loads(body)["path"] == "/items?page=2", f"a proxied GET: {status} {body!r}")
    status, body = proxy.request("POST", "/proxy/shop/items", b"x" * LARGE)
    expect(status == 200, f"a proxied POST of {LARGE} bytes: {status} {body!r}")
    status, body = proxy.request("GET", "/nothing/here")
    expect(status == 404, f"an unknown path: {status} {body!r}")


def check_stream(port: int) -> None:
    """Checks that the first event of a stream arrives while the stream is still open."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/v1/live?view=overview", headers={"Accept": "text/event-stream"})
    answer = connection.getresponse()
    line = answer.readline()
    expect(answer.status == 200 and line.startswith(b"event: hello"), f"a stream: {answer.status} {line!r}")
    connection.close()


PARTS = [
    Part("HAProxy in front, proto h2", check(haproxy)),
    Part("nghttpx in front, proto=h2", check(nghttpx)),
    Part("nghttpx in front, h2 over TLS", check(nghttpx_encrypted, is_encrypted=True)),
]

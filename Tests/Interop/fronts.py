"""Proxies in front of the HTTP API that speak HTTP/2 to it and HTTP/1.1 to their own clients.

HAProxy and nghttpx send `host` in place of `:authority` where their client sent `Host` (RFC 9113, section 8.3.1).
"""

import http.client
import json
from collections.abc import Callable
from pathlib import Path

from parts import HTTP, Part, expect, found, sidecar
from servers import World, free_ports, is_open

#: More than the windows that HTTP/2 begins with.
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


def haproxy(world: World, port: int) -> list[str]:
    file = world.folder / "haproxy.cfg"
    file.write_text(HAPROXY.format(port=port, sidecar=world.ports[HTTP]))
    return [found("haproxy", "haproxy"), "-db", "-f", str(file)]


def nghttpx(world: World, port: int, backend: str = "") -> list[str]:
    program = found("nghttpx", "nghttp2-proxy")
    log = world.folder / "nghttpx.log"
    places = [f"--frontend=127.0.0.1,{port};no-tls", f"--backend=127.0.0.1,{world.ports[HTTP]};;proto=h2{backend}"]
    return [program, "--insecure", "--conf=/dev/null", "--workers=1", f"--errorlog-file={log}", *places]


def nghttpx_encrypted(world: World, port: int) -> list[str]:
    """Over TLS, nghttpx serves no request if its backend does not negotiate h2."""
    return nghttpx(world, port, backend=";tls")


class Front:
    """Requests to a proxy over one connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def ask(self, method: str, path: str, body: object = None, **fields: str) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        self.connection.request(method, path, data, {**headers, **named})
        answer = self.connection.getresponse()
        return answer.status, answer.read()


def check(start: Callable[[World, int], list[str]], is_encrypted: bool = False) -> Callable[[Path], None]:
    """`start` returns the command that starts the proxy on a port."""

    def run(binary: Path) -> None:
        with sidecar(binary, SERVICES, is_encrypted=is_encrypted) as world:
            [port] = free_ports(1)
            world.start(*start(world, port))
            world.until("the proxy listens", lambda: is_open(port))
            pass_requests(Front(port))
            stream(port)

    return run


def pass_requests(front: Front) -> None:
    status, body = front.ask("GET", "/healthz")
    expect(status == 200, f"GET /healthz: {status} {body!r}")
    status, body = front.ask("POST", "/v1/locks/orders", {"ttl_ms": 30_000})
    expect(status == 201, f"a lock: {status} {body!r}")
    token = json.loads(body)["token"]
    status, body = front.ask("POST", "/v1/locks/orders", {"ttl_ms": 30_000})
    expect(status == 409, f"the same lock: {status} {body!r}")
    status, body = front.ask("DELETE", "/v1/locks/orders", Lease_Token=token)
    expect(status == 204, f"its release: {status} {body!r}")
    statuses = [front.ask("POST", "/v1/limits/catalog/take", {})[0] for _ in range(4)]
    expect(statuses == [200, 200, 200, 429], f"four takes of a limit of three: {statuses}")
    status, body = front.ask("GET", "/proxy/shop/items?page=2")
    expect(status == 200 and json.loads(body)["path"] == "/items?page=2", f"a proxied GET: {status} {body!r}")
    status, body = front.ask("POST", "/proxy/shop/items", b"x" * LARGE)
    expect(status == 200, f"a proxied POST of {LARGE} bytes: {status} {body!r}")
    status, body = front.ask("GET", "/nothing/here")
    expect(status == 404, f"an unknown path: {status} {body!r}")


def stream(port: int) -> None:
    """The beginning of a stream arrives while the stream goes on."""
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

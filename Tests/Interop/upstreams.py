"""nginx with HTTP/2 as a service behind the proxy, in the clear and over TLS.

Its connections end after a few requests: GOAWAY says which streams were not processed, and those are sent again.
"""

import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from parts import HTTP, RESP, Part, Skipped, certify, expect, found, sidecar
from servers import Connection, World, free_ports, is_open

LARGE = 1 << 20
#: Requests of one connection to nginx.
REQUESTS_EACH = 7
REQUESTS, AT_ONCE = 300, 8
NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{ worker_connections 200; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 0;
    keepalive_requests {requests};
    server {{
        listen 127.0.0.1:{clear} http2;
        listen 127.0.0.1:{encrypted} ssl http2;
        ssl_certificate {folder}/certificate.pem;
        ssl_certificate_key {folder}/key.pem;
        root {folder}/files;
        location /protocol {{ return 200 $server_protocol; }}
    }}
}}
"""
SERVICE = """\
  {name}:
    url: "{url}"
    http2: true{tls}
    retries: {{ attempts: 0 }}
    breaker: {{ minimum_calls: 5 }}
    probe: {{ path: /protocol, every: 1s, timeout: 900ms }}
"""


def start_nginx(world: World, clear: int, encrypted: int) -> None:
    nginx = found("nginx", "nginx")
    if "http_v2_module" not in subprocess.run([nginx, "-V"], capture_output=True, text=True, check=False).stderr:
        raise Skipped("this nginx has no HTTP/2")
    # nginx' worker is another user.
    world.folder.chmod(0o711)
    files = world.folder / "files"
    files.mkdir()
    (files / "large").write_bytes(b"x" * LARGE)
    certify(world)
    configuration = world.folder / "nginx.conf"
    configuration.write_text(
        NGINX.format(folder=world.folder, clear=clear, encrypted=encrypted, requests=REQUESTS_EACH)
    )
    world.start(nginx, "-p", str(world.folder), "-e", "stderr", "-c", str(configuration))
    world.until("nginx listens", lambda: is_open(clear) and is_open(encrypted))


def ask(world: World, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    address = f"http://127.0.0.1:{world.ports[HTTP]}/proxy/{path}"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data=body), timeout=20) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def check(binary: Path) -> None:
    clear, encrypted = free_ports(2)
    with sidecar(binary) as world:
        start_nginx(world, clear, encrypted)
        services = [
            SERVICE.format(name="clear", url=f"http://127.0.0.1:{clear}", tls=""),
            SERVICE.format(
                name="encrypted",
                url=f"https://localhost:{encrypted}",
                tls=f"\n    tls: {{ ca: {world.folder}/certificate.pem }}",
            ),
        ]
        file = world.folder / "behind.yaml"
        file.write_text("services:\n" + "".join(services))
        world.start_sidecar(file)
        for name in ("clear", "encrypted"):
            call(world, name)


def call(world: World, name: str) -> None:
    status, body = ask(world, f"{name}/protocol")
    expect((status, body) == (200, b"HTTP/2.0"), f"{name}: {status} {body!r}")
    status, body = ask(world, f"{name}/large")
    expect(status == 200 and len(body) == LARGE, f"{name}: a file of {LARGE} bytes: {status}, {len(body)} bytes")
    status, body = ask(world, f"{name}/protocol", b"x" * LARGE)
    expect(status == 200, f"{name}: a body of {LARGE} bytes: {status} {body!r}")
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = list(threads.map(lambda _: ask(world, f"{name}/protocol", b"x"), range(REQUESTS)))
    others = [answer for answer in answers if answer != (200, b"HTTP/2.0")]
    expect(not others, f"{name}: {len(others)} of {REQUESTS} requests failed across GOAWAY: {others[:1]}")
    connection = Connection(world.ports[RESP])
    fields = breaker(connection, name)
    world.until(f"a good probe of {name}", lambda: probed(breaker(connection, name)))
    expect(fields["state"] == "closed", f"{name}: the breaker of a healthy service is {fields}")
    connection.close()


def breaker(connection: Connection, name: str) -> dict[str, object]:
    answer = connection.call("BREAKER.STATE", name)
    assert isinstance(answer, list)
    return dict(zip(answer[::2], answer[1::2], strict=True))


def probed(fields: dict[str, object]) -> bool:
    probe = fields["probe"]
    return isinstance(probe, list) and dict(zip(probe[::2], probe[1::2], strict=True))["finding"] == "good"


PARTS = [Part("nginx behind, http2", check)]

"""nginx with HTTP/2 as a service behind the proxy, with and without TLS.

Its connections end after a few requests; the sidecar retries the streams that GOAWAY reports as unprocessed.
"""

import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from parts import HTTP, RESP, Part, Skipped, certify, expect, find_program, sidecar
from servers import Connection, Servers, free_ports, is_open

LARGE = 1 << 20
#: The number of requests that nginx accepts on one connection.
REQUESTS_PER_CONNECTION = 7
REQUESTS, CONCURRENCY = 300, 8
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


def start_nginx(servers: Servers, clear: int, encrypted: int) -> None:
    nginx = find_program("nginx", "nginx")
    if "http_v2_module" not in subprocess.run([nginx, "-V"], capture_output=True, text=True, check=False).stderr:
        raise Skipped("this nginx has no HTTP/2")
    # nginx workers run as another user.
    servers.folder.chmod(0o711)
    files = servers.folder / "files"
    files.mkdir()
    (files / "large").write_bytes(b"x" * LARGE)
    certify(servers)
    configuration = servers.folder / "nginx.conf"
    configuration.write_text(
        NGINX.format(folder=servers.folder, clear=clear, encrypted=encrypted, requests=REQUESTS_PER_CONNECTION)
    )
    servers.start(nginx, "-p", str(servers.folder), "-e", "stderr", "-c", str(configuration))
    servers.wait_until("nginx listens", lambda: is_open(clear) and is_open(encrypted))


def ask(servers: Servers, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    address = f"http://127.0.0.1:{servers.ports[HTTP]}/proxy/{path}"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data=body), timeout=20) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def check(binary: Path) -> None:
    clear, encrypted = free_ports(2)
    with sidecar(binary) as servers:
        start_nginx(servers, clear, encrypted)
        services = [
            SERVICE.format(name="clear", url=f"http://127.0.0.1:{clear}", tls=""),
            SERVICE.format(
                name="encrypted",
                url=f"https://localhost:{encrypted}",
                tls=f"\n    tls: {{ ca: {servers.folder}/certificate.pem }}",
            ),
        ]
        file = servers.folder / "behind.yaml"
        file.write_text("services:\n" + "".join(services))
        servers.start_sidecar(file)
        for name in ("clear", "encrypted"):
            check_service(servers, name)


def check_service(servers: Servers, name: str) -> None:
    status, body = ask(servers, f"{name}/protocol")
    expect((status, body) == (200, b"HTTP/2.0"), f"{name}: {status} {body!r}")
    status, body = ask(servers, f"{name}/large")
    expect(status == 200 and len(body) == LARGE, f"{name}: a file of {LARGE} bytes: {status}, {len(body)} bytes")
    status, body = ask(servers, f"{name}/protocol", b"x" * LARGE)
    expect(status == 200, f"{name}: a body of {LARGE} bytes: {status} {body!r}")
    with ThreadPoolExecutor(CONCURRENCY) as threads:
        answers = list(threads.map(lambda _: ask(servers, f"{name}/protocol", b"x"), range(REQUESTS)))
    others = [answer for answer in answers if answer != (200, b"HTTP/2.0")]
    expect(not others, f"{name}: {len(others)} of {REQUESTS} requests failed across GOAWAY: {others[:1]}")
    connection = Connection(servers.ports[RESP])
    fields = breaker(connection, name)
    servers.wait_until(f"a good probe of {name}", lambda: is_probed(breaker(connection, name)))
    expect(fields["state"] == "closed", f"{name}: the breaker of a healthy service is {fields}")
    connection.close()


def breaker(connection: Connection, name: str) -> dict[str, object]:
    answer = connection.call("BREAKER.STATE", name)
    assert isinstance(answer, list)
    return dict(zip(answer[::2], answer[1::2], strict=True))


def is_probed(fields: dict[str, object]) -> bool:
    probe = fields["probe"]
    return isinstance(probe, list) and dict(zip(probe[::2], probe[1::2], strict=True))["finding"] == "good"


PARTS = [Part("nginx behind, http2", check)]

"""The servers of a page: Redis, a sidecar, and an API that the sidecar calls, with their own directory and ports."""

import http.server
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

#: The timeout for a server to start or to notice a change, in seconds.
TIMEOUT = 15.0
#: Ports and addresses in the pages.
RESP, HTTP, REDIS, UPSTREAM, GATEWAY = 7379, 7380, 6379, 8080, 8000
API = "https://api.example.com"
#: The Redis that all hosts share. Here it is 0.0.0.0, which Linux connects to this host but a sidecar does not count as
#: a loopback address, so commands print the same as with a shared Redis.
SHARED_REDIS, SHARED_REDIS_HERE = "redis.example.com", "0.0.0.0"


class Failure(Exception):
    """A check that failed."""


#: Ports below the kernel's ephemeral range, because an outgoing connection could use a port while its server is down.
PORTS = range(15000, 32000)
#: Ports in use, because several pages run concurrently.
USED_PORTS: set[int] = set()
PORTS_LOCK = threading.Lock()


def free_ports(count: int) -> list[int]:
    """Returns ports that are unique within this run."""
    ports: list[int] = []
    with PORTS_LOCK:
        while len(ports) < count:
            port = random.choice(PORTS)
            if port not in USED_PORTS and is_free(port):
                USED_PORTS.add(port)
                ports.append(port)
    return ports


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def is_open(port: int) -> bool:
    """Returns whether a server listens there; `is_free` could bind the port just before its server does."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT).close()
    except OSError:
        return False
    return True


def environment(**more: str) -> dict[str, str]:
    """Returns the environment without settings for other sidecars, plus the given variables."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return {**inherited, "NO_COLOR": "1", "no_proxy": "*", **more}


class Upstream(http.server.ThreadingHTTPServer):
    """An API that responds with the requested path, or with 500 while it is down."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), UpstreamHandler)
        self.is_down = False
        threading.Thread(target=self.serve_forever, daemon=True).start()


class UpstreamHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Upstream)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.dumps({"error": "out of order"} if self.server.is_down else {"path": self.path}).encode() + b"\n"
        self.send_response(500 if self.server.is_down else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


class Servers:
    """The servers and files that a page's blocks use. `close` stops everything that was started."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary = binary
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.sidecar: subprocess.Popen[bytes] | None = None
        self.redis: subprocess.Popen[bytes] | None = None
        self.upstream = Upstream()
        shown = (RESP, HTTP, REDIS, GATEWAY)
        self.ports = dict(zip(shown, free_ports(len(shown)), strict=True)) | {UPSTREAM: self.upstream.server_port}
        programs = folder / "bin"
        programs.mkdir()
        (programs / "interlock").symlink_to(binary)
        self.environment = environment(
            PATH=f"{programs}:{os.environ['PATH']}",
            INTERLOCK_SIDECAR=f"127.0.0.1:{self.ports[RESP]}",
            HOME=str(folder),
            WEB_KEY="a-key-for-web",
            OPS_KEY="a-key-for-ops",
        )
        self.start_redis()

    # ---- addresses on the page and of this run

    def with_run_ports(self, text: str) -> str:
        """Returns a page's text with the ports of this run."""
        text = text.replace(API, f"http://127.0.0.1:{UPSTREAM}").replace(SHARED_REDIS, SHARED_REDIS_HERE)
        return re.sub(
            rf"(?<!\d)({'|'.join(map(str, self.ports))})(?!\d)", lambda found: str(self.ports[int(found[1])]), text
        )

    def with_page_ports(self, text: str) -> str:
        """Returns printed text with the ports of the page."""
        page_ports = {str(port): str(shown) for shown, port in self.ports.items()}
        text = re.sub(rf"(?<!\d)({'|'.join(page_ports)})(?!\d)", lambda found: page_ports[found[1]], text)
        return text.replace(f"http://127.0.0.1:{UPSTREAM}", API).replace(SHARED_REDIS_HERE, SHARED_REDIS)

    # ---- Redis

    def start_redis(self) -> None:
        data = self.folder / "redis"
        data.mkdir(exist_ok=True)
        port = self.ports[REDIS]
        # fmt: off
        self.redis = self.start(
            "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
            "--appendfsync", "always", "--dir", str(data), "--logfile", str(data / "log"),
        )
        # fmt: on
        self.wait_until("Redis answers", lambda: self.redis_answers(port))

    def redis_answers(self, port: int) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    # ---- the sidecar

    def start_sidecar(self, configuration: Path | None) -> None:
        """Starts the sidecar, or replaces it by one with a new configuration."""
        words = ["--redis", f"redis://{SHARED_REDIS_HERE}:{self.ports[REDIS]}"]
        if configuration is not None:
            # The shared Redis replaces the private one.
            text = configuration.read_text().replace("redis: { embedded: true }\n", "")
            configuration.write_text(text)
            words += ["--config", str(configuration)]
        self.serve(words)

    def start_private_sidecar(self, configuration: Path) -> None:
        """Starts a sidecar with a private Redis in its default directory."""
        self.serve(["--config", str(configuration)])

    def serve(self, words: list[str]) -> None:
        if self.sidecar:
            self.stop(self.sidecar)
        # fmt: off
        self.sidecar = self.start(
            str(self.binary), "serve", *words,
            "--resp", f"127.0.0.1:{self.ports[RESP]}", "--http", f"127.0.0.1:{self.ports[HTTP]}",
        )
        # fmt: on
        self.wait_until("the sidecar is ready", lambda: self.readiness() == 200)

    def readiness(self) -> int:
        """Returns the status of /readyz, or 0 if nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[HTTP]}/readyz", timeout=2) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    # ---- states of the servers

    def set_state(self, server: str, state: str) -> None:
        match server, state:
            case "upstream", _:
                self.upstream.is_down = state == "down"
            case "redis", "away":
                assert self.redis
                self.stop(self.redis)
                self.wait_until("the sidecar notices that Redis is unreachable", lambda: self.readiness() == 503)
            case "redis", "back":
                self.start_redis()
                self.wait_until("the sidecar is connected to Redis again", lambda: self.readiness() == 200)

    # ---- processes

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
            )
        self.processes.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes], signal_number: signal.Signals = signal.SIGTERM) -> None:
        process.send_signal(signal_number)
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.processes.remove(process)

    def wait_until(self, expectation: str, condition: Callable[[], bool], timeout: float = TIMEOUT) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise Failure(f"{expectation}: not within {timeout:.0f} s")
            if self.sidecar and self.sidecar.poll() is not None:
                raise Failure(f"{expectation}: the sidecar ended with {self.sidecar.returncode}")
            time.sleep(0.03)

    def close(self) -> None:
        for process in reversed(list(self.processes)):
            self.stop(process)
        self.upstream.shutdown()
        self.upstream.server_close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Connection:
    """Sends commands to a sidecar or to Redis, and reads their replies."""

    def __init__(self, port: int, key: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.file = self.socket.makefile("rb")
        if key:
            self.call("AUTH", key)

    def call(self, *words: object) -> object:
        self.send(*words)
        return self.answer()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def send(self, *words: object) -> None:
        texts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%s\r\n" % (len(text), text) for text in texts))

    def answer(self) -> object:
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        match kind:
            case b"$":
                return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode()
            case b"*":
                return None if rest == b"-1" else [self.answer() for _ in range(int(rest))]
            case b":":
                return int(rest)
            case _:
                return line.decode()

#!/usr/bin/env python3
"""What the tour in docs/envoy/README.md needs: a Redis, a sidecar, a service behind Envoy, and Envoy.

Starts them, says when they are ready and what to try, and stops them at Ctrl-C, or when one of them ends.
"""

import argparse
import contextlib
import http.client
import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REDIS, RESP, HTTP, GRPC, SERVICE, EDGE = 6379, 7379, 7380, 7381, 8080, 10000
#: Who listens where, as interlock.yaml and envoy.yaml have it.
PORTS = {REDIS: "redis-server", RESP: "sidecar", HTTP: "sidecar", GRPC: "sidecar", SERVICE: "service", EDGE: "envoy"}
#: Seconds in which a program has to be ready or to stop, and from one word to the next while it is not ready.
PATIENCE, QUIET = 15, 2
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NEXT = """
In another terminal, by docs/envoy/README.md:

A limit              curl -s -o /dev/null -w '%{{http_code}} %header{{ratelimit}}\\n' 'localhost:10000/search?[1-7]'
A breaker            curl -s -o /dev/null -w '%{{http_code}} ' 'localhost:10000/shop?[1-4]'
A quota              curl -si -H 'x-tenant: acme' localhost:10000
Without the sidecar  kill -STOP {sidecar}, and in the end kill -CONT {sidecar}

Here: Ctrl-C stops everything."""


class Service(http.server.BaseHTTPRequestHandler):
    """Answers with the status that was PUT last, as in `PUT /500`; after `PUT /0` it hangs up instead."""

    protocol_version = "HTTP/1.1"
    status = 200
    log = Path(os.devnull)

    def do_GET(self) -> None:
        self.close_connection = not Service.status
        if Service.status:
            self.answer(Service.status)

    def do_PUT(self) -> None:
        Service.status = int(self.path[1:])
        self.answer(200)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:
        with self.log.open("a") as log:
            print(self.log_date_time_string(), format % words, file=log)


class Tour:
    """The programs, and the directory of their logs."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="interlock-tour-"))
        self.programs: dict[str, subprocess.Popen[bytes]] = {}

    def open(self, redis: str, binary: str, envoy: str) -> None:
        say(f"Logs: {self.folder}/*.log")
        self.start("redis-server", redis, "--port", str(REDIS), "--bind", "127.0.0.1", "--save", "")
        self.until("redis-server", pong)
        self.start("sidecar", binary, "serve", "--config", str(HERE / "interlock.yaml"))
        self.until("sidecar", lambda: ask(HTTP, "/readyz")[0] == 200)
        Service.log = self.folder / "service.log"
        service = http.server.ThreadingHTTPServer(("127.0.0.1", SERVICE), Service)
        threading.Thread(target=service.serve_forever, daemon=True).start()
        say(f"{'service':12}  port 8080")
        # With one worker, the connection that the sidecar's first answer came by is that of all calls.
        options = ["-l", "warning", "--use-dynamic-base-id", "--concurrency", "1"]
        self.start("envoy", envoy, "-c", str(HERE / "envoy.yaml"), *options)
        self.until("envoy", lambda: "ratelimit" in ask(EDGE, "/search")[1])

    def start(self, name: str, *command: str) -> None:
        # Settings for other sidecars on this machine must not reach this one. A session of its own: Ctrl-C goes to this
        # program only, which stops the others; should it be killed, the kernel does.
        settings = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        words = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.programs[name] = subprocess.Popen(
                words, stdout=log, stderr=log, cwd=self.folder, env=settings, start_new_session=True
            )

    def until(self, name: str, is_ready: Callable[[], bool]) -> None:
        """Waits until a program is ready, and says so."""
        begin, word = time.monotonic(), QUIET
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if is_ready():
                    break
            self.check()
            waited = time.monotonic() - begin
            if waited > PATIENCE:
                self.fail(name, f"is not ready after {PATIENCE} s")
            if waited > word:
                say(f"{name:12}  not ready yet after {word} s")
                word += QUIET
            time.sleep(0.1)
        ports = ", ".join(str(port) for port, owner in PORTS.items() if owner == name)
        say(f"{name:12}  port {ports}, process {self.programs[name].pid}")

    def check(self) -> None:
        """Fails when a program has ended."""
        for name, program in self.programs.items():
            if (code := program.poll()) is not None:
                self.fail(name, f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}")

    def fail(self, name: str, how: str) -> NoReturn:
        log = self.folder / f"{name}.log"
        lines = log.read_text(errors="replace").splitlines()[-10:]
        fail("\n".join([f"{name} {how}. The last lines of {log}:", *lines]))

    def close(self) -> None:
        for program in reversed(self.programs.values()):
            program.terminate()
            program.send_signal(signal.SIGCONT)  # the tour may have halted it
            try:
                program.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()

    def walk(self) -> None:
        """The tour's first steps."""
        time.sleep(1)  # the calls that found Envoy ready are of the second before
        self.see("/search", "200 200 200 200 200 429 429")
        self.see("/shop", "200 200 200 200")
        ask(SERVICE, "/500", "PUT")
        self.see("/shop", "500 500 500 500 500 503 503 503")
        self.see("/checked", "503")
        ask(SERVICE, "/200", "PUT")
        time.sleep(3)
        self.see("/shop", "200 200 200 200")

    def see(self, path: str, expected: str) -> None:
        """Calls Envoy once for each status that is expected. The sidecar knows of a call before the next is made."""
        statuses = []
        for _ in expected.split():
            statuses.append(str(ask(EDGE, path)[0]))
            while path == "/shop" and b"\ninterlock_permits_active 0\n" not in ask(HTTP, "/metrics")[2]:
                self.check()
                time.sleep(0.01)
        say(f"{path:8}  {' '.join(statuses)}")
        if statuses != expected.split():
            fail(f"{path} should have answered {expected}")


def say(text: str) -> None:
    print(text, flush=True)


def fail(text: str) -> NoReturn:
    sys.exit(f"envoy-tour: {text}")


def ask(port: int, path: str, method: str = "GET") -> tuple[int, http.client.HTTPMessage, bytes]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def pong() -> bool:
    with socket.create_connection(("127.0.0.1", REDIS), timeout=5) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / ".build/release/interlock", help="another build of interlock")
    parser.add_argument("--envoy", default=ROOT / ".venv/bin/envoy", help="another Envoy")
    parser.add_argument("--once", action="store_true", help="take the first steps, and stop; 1 if one goes wrong")
    options = parser.parse_args()
    makers = {"redis-server": "setup", options.binary: "build", options.envoy: ".venv/envoy.installed"}
    programs = []
    for program, target in makers.items():
        if not (path := shutil.which(program)):
            fail(f"{program} is missing; `make {target}` makes it")
        programs.append(str(Path(path).absolute()))
    if taken := [f"{port} ({name})" for port, name in PORTS.items() if not is_free(port)]:
        fail(f"taken: port {', '.join(taken)}. Stop what listens there; `ss -ltnp` shows it")
    for end in ENDS:
        if signal.getsignal(end) != signal.SIG_IGN:  # as nohup has it
            signal.signal(end, signal.default_int_handler)
    tour = Tour()
    try:
        tour.open(*programs)
        if options.once:
            tour.walk()
        else:
            say(NEXT.format(sidecar=tour.programs["sidecar"].pid))
            while True:
                tour.check()
                time.sleep(0.1)
    except KeyboardInterrupt:
        if options.once:
            fail("interrupted")
    finally:
        for end in ENDS:
            signal.signal(end, signal.SIG_IGN)
        with contextlib.suppress(OSError):  # the terminal may be gone
            say("\nStopping")
        tour.close()
    shutil.rmtree(tour.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

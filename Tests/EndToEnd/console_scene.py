"""The scene for screenshots of the console: five minutes of load of a small shop.

`make test-console ARGS='--screenshots FOLDER'` takes the screenshots. The scene lasts as long as the history that the
console keeps, so run it manually.
"""

import contextlib
import json
import math
import random
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from servers import HTTP, REDIS, RESP, Connection, Servers, free_ports

if TYPE_CHECKING:
    from console import User

#: A little longer than the history that the console keeps, in seconds, so that the plots are full.
HISTORY = 305
#: The time for which payments fail before the screenshots, in seconds.
OUTAGE = 25
CONFIGURATION = """
auth:
  keys:
    - { name: web, key_env: WEB_KEY, role: use }
    - { name: ops, key_env: OPS_KEY, role: admin }
services:
  search:
    concurrency: 40
    limits:
      - { limit: 30, per: 1s }
      - { limit: 1500, per: 1m }
  mail:
    limits:
      - { limit: 600, per: 1m }
    breaker: { failure_rate: 50%, window: 10s, minimum_calls: 20, open_for: 30s..5m }
  payments:
    breaker: { failure_rate: 50%, window: 10s, minimum_calls: 20, open_for: 2m..2m }
"""


class Program:
    """A program of the shop. Repeats an action at a rate that rises and falls."""

    def __init__(self, port: int, key: str, rate: float, action: Callable[[Connection], object]) -> None:
        self.connection = Connection(port, key)
        self.rate = rate
        self.action = action
        self.start = time.monotonic()
        self.is_over = threading.Event()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while not self.is_over.wait(self.interval()):
            with contextlib.suppress(OSError, ValueError):
                self.action(self.connection)

    def interval(self) -> float:
        wave = 1 + 0.5 * math.sin((time.monotonic() - self.start) / 20)
        return random.expovariate(self.rate * wave)


class Scene:
    def __init__(self, servers: Servers, key: str, admin: str) -> None:
        self.servers = servers
        self.key = key
        self.admin = admin
        self.payments_fail = False
        self.ports = [servers.ports[RESP], self.start_sidecar(), self.start_sidecar()]

    def start_sidecar(self) -> int:
        """Starts one more sidecar of the fleet."""
        resp, http = free_ports(2)
        # fmt: off
        self.servers.start(
            str(self.servers.binary), "serve", "--config", str(self.servers.folder / "console.yaml"),
            "--redis", f"redis://127.0.0.1:{self.servers.ports[REDIS]}",
            "--resp", f"127.0.0.1:{resp}", "--http", f"127.0.0.1:{http}",
        )
        # fmt: on
        self.servers.wait_until("one more sidecar is ready", lambda: is_ready(http))
        return resp

    def start_programs(self) -> list[Program]:
        """Starts all programs. Most of them use the sidecar in the screenshots."""
        shown_port, *others = self.ports
        programs = [
            *(Program(shown_port, self.key, 8, self.use_cart) for _ in range(2)),
            *(Program(shown_port, self.key, 14, self.search) for _ in range(2)),
            Program(shown_port, self.key, 6, self.send_mail),
            *(Program(shown_port, self.key, 5, self.pay) for _ in range(2)),
        ]
        for port in others:
            programs += [Program(port, self.key, 5, self.use_cart), Program(port, self.key, 5, self.pay)]
        return programs

    def use_cart(self, connection: Connection) -> None:
        name = f"cart/{random.randrange(2000, 2012)}"
        lease = connection.call("LOCK.ACQUIRE", name, 8000, "LABEL", f"web-{random.randrange(1, 6)}")
        if isinstance(lease, list):
            time.sleep(random.uniform(0.01, 0.15))
            connection.call("LOCK.RELEASE", name, lease[0])

    def search(self, connection: Connection) -> None:
        connection.call("LIMIT.TAKE", "search")

    def send_mail(self, connection: Connection) -> None:
        connection.call("LIMIT.TAKE", "mail")
        self.call_service(connection, "mail", 0.01)

    def pay(self, connection: Connection) -> None:
        self.call_service(connection, "payments", 0.8 if self.payments_fail else 0.02)

    def call_service(self, connection: Connection, service: str, failure_rate: float) -> None:
        permit = connection.call("PERMIT.ACQUIRE", service)
        if isinstance(permit, list) and permit[0] == 1:
            time.sleep(random.uniform(0.005, 0.06))
            result = "ERROR" if random.random() < failure_rate else "OK"
            connection.call("PERMIT.REPORT", service, permit[1], result)

    def hold_lock(self) -> list[Connection]:
        """Acquires a lock for one program, and lets three others wait for it."""
        grant = Connection(self.ports[0], self.key)
        grant.call("LOCK.ACQUIRE", "orders/1042", 240_000, "LABEL", "worker-3")
        waiters = [Connection(port, self.key) for port in (self.ports[0], self.ports[1], self.ports[1])]
        for number, waiter in enumerate(waiters):
            waiter.send("LOCK.ACQUIRE", "orders/1042", 60_000, "WAIT", 240_000, "LABEL", f"worker-{number + 4}")
            time.sleep(0.5)
        return [grant, *waiters]

    def force(self, service: str, reason: str) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.servers.ports[HTTP]}/v1/services/{service}/override",
            json.dumps({"state": "open", "reason": reason, "for_ms": 5_400_000}).encode(),
            {"Content-Type": "application/json", "X-Api-Key": self.admin},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=10):
            pass


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
            return True
    except OSError:
        return False


def take_screenshots(servers: Servers, user: "User", web: str, ops: str, folder: Path) -> None:
    """Takes screenshots of the overview, a lock and a service, in light and dark."""
    scene = Scene(servers, web, ops)
    programs = scene.start_programs()
    print(f"console: load for {HISTORY} s, then screenshots", flush=True)
    connections: list[Connection] = []
    for second in range(HISTORY):
        if second % 30 == 0:
            print(f"console: {second} of {HISTORY} s", flush=True)
        if second == HISTORY - OUTAGE:
            scene.payments_fail = True
            scene.force("mail", "maintenance until noon")
            connections = scene.hold_lock()
        time.sleep(1)
    user.log_in_with(ops)
    for name, view in (("overview", ""), ("lock", "lock/orders%2F1042"), ("service", "service/mail")):
        user.open_view(view)
        user.page.wait_for_timeout(6000)
        for scheme in ("light", "dark"):
            user.page.emulate_media(color_scheme=scheme)
            user.page.wait_for_timeout(300)
            user.page.screenshot(path=folder / f"{name}-{scheme}.png", full_page=True)
        print(f"console: saved {name}", flush=True)
    for program in programs:
        program.is_over.set()
    for connection in connections:
        connection.close()

"""The time from a promotion by Sentinels to the first lock granted at the promoted server."""

import pathlib
import select
import statistics
import time

from figures.table import Table
from rig.client import Client, Replies, encode
from rig.load import PYTHON
from rig.sentinels import DOWN_AFTER, LOSSES, NAME, SentinelRig
from rig.servers import ROOT, print_line, wait_until

#: Each caller, with its locks' key prefix.
CALLERS = {"interlock": "interlock:lock:{{{}}}", "redis-py": "{}"}
#: Seconds of calls before the primary is lost.
CALM = 1.0
#: Seconds within which a caller must acquire a lock at the promoted server.
TIMEOUT = 60
#: Seconds from the promotion until the Sentinels can reach the former primary again.
RESTORED_AFTER = 3
BOUND_MS = 300
EXPLANATION = f"""\
A primary with two replicas is killed, stopped, or cut off from its three Sentinels, which consider it down after
{DOWN_AFTER} ms. Two processes lock every 2 ms, through a sidecar and redis-py's Sentinel client. The former primary
returns {RESTORED_AFTER} s after the announcement (`+switch-master`); clients may follow it for the ten seconds until
Sentinels demote it."""


class Announcements:
    """Listens for every Sentinel's announcement of another primary."""

    def __init__(self, rig: SentinelRig) -> None:
        self.clients = [Client(port) for port in rig.sentinels]
        self.replies = {client.socket: Replies() for client in self.clients}
        for client in self.clients:
            client.socket.sendall(encode("SUBSCRIBE", "+switch-master"))

    def first(self, former: int) -> tuple[int, int]:
        """Returns the time of the first announcement that replaces `former`, and the new primary's port."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            readable, _, _ = select.select(list(self.replies), [], [], 0.1)
            for socket in readable:
                for kind, _, message in self.replies[socket].feed(socket.recv(1 << 16)):
                    words = message.split() if kind == b"message" else []
                    if words and words[0] == NAME.encode() and int(words[2]) == former:
                        return time.monotonic_ns(), int(words[4])
        raise SystemExit(f"benchmark: no Sentinel has promoted a replica within {TIMEOUT} s")


def grants(log: pathlib.Path, since: int) -> list[tuple[int, str]]:
    """Returns the times and names of the locks granted since a moment, in order."""
    lines = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(int(at), name) for at, name in lines if int(at) >= since]


def first_at(port: int, log: pathlib.Path, pattern: str, since: int) -> int | None:
    """Returns the time of the first lock granted since a moment whose key is at a server."""
    client = Client(port)
    return next((at for at, name in grants(log, since) if int(client.command("EXISTS", pattern.format(name)))), None)


def measure(rig: SentinelRig, table: Table, rounds: int, scale: int) -> None:
    count = max(6, 12 * rounds * scale // 100)
    sidecar = rig.start_sidecar()
    ports = {"interlock": [sidecar.port], "redis-py": rig.sentinels}
    for caller, own_ports in ports.items():
        rig.start(caller, PYTHON, "-m", "peers.sentinel_callers", caller, NAME, *own_ports, cwd=ROOT / "Benchmarks")
    announcements = Announcements(rig)
    times: dict[str, list[float]] = {caller: [] for caller in CALLERS}
    elections: list[float] = []
    for number in range(count):
        loss = LOSSES[number % len(LOSSES)]
        begin = time.monotonic_ns()
        logs = {caller: rig.folder / f"{caller}.log" for caller in CALLERS}
        wait_until(lambda: all(grants(log, begin) for log in logs.values()), "a lock by each caller", TIMEOUT)  # noqa: B023
        time.sleep(CALM)
        lost = time.monotonic_ns()
        switched, port = announcements.first(rig.lose(loss))
        elections.append((switched - lost) / 1e6)
        is_restored = False
        for caller, pattern in CALLERS.items():
            at = None
            while at is None:
                # A client that stays with an isolated primary leaves it once the Sentinels reach it again.
                if not is_restored and time.monotonic_ns() - switched > RESTORED_AFTER * 1e9:
                    rig.restore()
                    is_restored = True
                if time.monotonic_ns() - switched > TIMEOUT * 1e9:
                    raise SystemExit(f"benchmark: no lock of {caller} at the promoted server within {TIMEOUT} s")
                time.sleep(0.01)
                at = first_at(port, logs[caller], pattern, switched)
            times[caller].append((at - switched) / 1e6)
        print_line(
            f"failover {number + 1} of {count}, {loss}: Sentinels {elections[-1]:.0f} ms, "
            + ", ".join(f"{caller} {milliseconds[-1]:.0f} ms" for caller, milliseconds in times.items())
        )
        if not is_restored:
            rig.restore(quickly=True)
    report(table, times, elections)


def report(table: Table, times: dict[str, list[float]], elections: list[float]) -> None:
    interlock, peer = times["interlock"], times["redis-py"]
    label = "announcement to the first lock at the new primary"
    for name, figure, bound in (("p50", statistics.median, None), ("longest", max, BOUND_MS)):
        own = figure(interlock)
        table.add(
            f"{label}: {name} of {len(interlock)}",
            f"{own:,.0f} ms",
            f"redis-py {figure(peer):,.0f} ms",
            f"{own:,.0f} ms",
            f"≤ {bound} ms" if bound else "–",
            own <= bound if bound else None,
        )
    table.add("Sentinels: loss to announcement, p50", "–", f"{statistics.median(elections):,.0f} ms", "–")

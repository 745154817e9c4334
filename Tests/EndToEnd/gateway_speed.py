"""Measures the gRPC API: decisions a second, the cost of a call, Envoy's overhead, and the effect of floods.

`.venv/bin/python Tests/EndToEnd/gateway_speed.py --binary .build/release/interlock` takes five minutes on an
otherwise idle machine. Each figure is the median of the rounds. The exit code is 1 if a figure misses its target.
"""

import argparse
import contextlib
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Template

from gateway_bench import (
    Bench,
    Report,
    ask,
    call_times,
    cpu_seconds,
    median_of,
    p50,
    p99,
    peak_resident,
    reset_peak_resident,
)
from gateway_client import SHOULD_RATE_LIMIT, GatewayClient, RoundTripClient, message
from gateway_floods import DOMAIN, FLOODS, Flood, body
from servers import RESP, TIMEOUT, Failure, free_ports

ENVOY = Path(__file__).with_suffix(".yaml").read_text()
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
TAKE = b"*2\r\n$10\r\nLIMIT.TAKE\r\n$%d\r\n%s\r\n" % (len(DOMAIN), DOMAIN.encode())
#: h2load's concurrent calls.
CONNECTIONS, STREAMS = 4, 32
#: The seconds for which another client is measured before a flood, and during it.
WATCH_SECONDS = 2
#: The seconds for which a flood runs before the measurement.
FLOOD_LEAD = 0.3
#: The targets: the minimum of decisions per second of the sidecar's processor time,
MIN_DECISIONS = 25_000
#: the maximum of scripts sent to Redis for 1,000 decisions,
MAX_SCRIPTS = 50
#: the maximum of microseconds between the two medians,
MAX_ADDED = 90
#: the maximum of p99 during a flood ÷ p99 before it, and of bytes that a flood adds to the resident memory.
MAX_FACTOR, MAX_GROWTH = 5, 50e6


def rate(bench: Bench, report: Report) -> None:
    sidecar = bench.start_sidecar()
    requests = int(200_000 * bench.scale)
    h2load(bench, requests // 10)
    by_time: list[float] = []
    by_cpu: list[float] = []
    sent: list[float] = []
    processed: list[float] = []
    for _ in range(bench.rounds):
        bench.redis.call("CONFIG", "RESETSTAT")
        decision_count, used = bench.decision_count(), cpu_seconds(sidecar)
        by_time.append(h2load(bench, requests))
        by_cpu.append(requests / (cpu_seconds(sidecar) - used))
        statistic = f"{bench.redis.call('INFO', 'stats')}{bench.redis.call('INFO', 'commandstats')}"
        sent.append(redis_count(r"cmdstat_eval(?:sha)?:calls=(\d+)", statistic) * 1000 / requests)
        processed.append(redis_count(r"total_commands_processed:(\d+)", statistic) * 1000 / requests)
        decision_count = bench.decision_count() - decision_count
        if decision_count != requests:
            raise Failure(f"{decision_count:,} of {requests:,} calls of h2load were decided")
    with bench.client() as client:
        ask(client)
    speed, scripts = statistics.median(by_cpu), statistics.median(sent)
    report.check_target(
        "rate",
        f"{statistics.median(by_time):,.0f} decisions a second, {speed:,.0f} per second of the sidecar's processor",
        f"at least {MIN_DECISIONS:,} of these",
        speed >= MIN_DECISIONS,
    )
    report.check_target(
        "rate",
        f"{scripts:.1f} scripts sent to Redis for 1,000 decisions of one key, "
        f"which with their own calls are {statistics.median(processed):.1f} commands there",
        f"at most {MAX_SCRIPTS} sent",
        scripts <= MAX_SCRIPTS,
    )


def h2load(bench: Bench, requests: int) -> float:
    """Returns calls per second."""
    file = bench.servers.folder / "message"
    file.write_bytes(message(body()))
    words = ["h2load", "-n", str(requests), "-c", str(CONNECTIONS), "-m", str(STREAMS), "-d", str(file)]
    fields = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    url = f"http://127.0.0.1:{bench.grpc}{SHOULD_RATE_LIMIT}"
    printed = subprocess.run([*words, *fields, url], capture_output=True, text=True, check=True, timeout=120).stdout
    speed = re.search(r"^finished in .*, ([\d.]+) req/s", printed, re.MULTILINE)
    if not speed or f"status codes: {requests} 2xx" not in printed:
        raise Failure(f"not all calls of h2load were answered:\n{printed}")
    return float(speed[1])


def redis_count(pattern: str, statistic: str) -> int:
    return sum(map(int, re.findall(f"^{pattern}", statistic, re.MULTILINE)))


def latency(bench: Bench, report: Report) -> None:
    bench.start_sidecar()
    with bench.client() as client, contextlib.closing(RoundTripClient(bench.servers.ports[RESP])) as resp:
        rounds = bench.alternate({"grpc": lambda: ask(client), "resp": lambda: take(resp)}, 40)
    by_grpc, by_resp = median_of(p50, rounds["grpc"]), median_of(p50, rounds["resp"])
    report.check_target(
        "latency",
        f"p50 of ShouldRateLimit {by_grpc:.0f} µs, of LIMIT.TAKE {by_resp:.0f} µs: {by_grpc - by_resp:.0f} µs more",
        f"at most {MAX_ADDED} µs more",
        by_grpc <= by_resp + MAX_ADDED,
    )


def take(resp: RoundTripClient) -> None:
    # Five integers, one a line; the first is 1 if the call was limited.
    answer = resp.exchange(TAKE, lambda data: data.count(b"\r\n") == 6 or data.startswith(b"-"))
    if not answer.startswith(b"*5\r\n:0\r\n"):
        raise Failure(f"a call within the limit was answered {answer!r}")


def envoy(bench: Bench, report: Report) -> None:
    bench.start_sidecar()
    kinds = {"plain": "without a limit", "local": "with Envoy's local limit", "asking": "with Interlock's limit"}
    names = [*kinds, "upstream", "admin"]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    file = bench.servers.folder / "envoy.yaml"
    file.write_text(Template(ENVOY).substitute(ports, grpc=bench.grpc, domain=DOMAIN))
    program = str(Path(sys.executable).parent / "envoy")
    options = ("--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
    process = bench.servers.start(program, "-c", str(file), *options)
    bench.servers.wait_until("Envoy answers", lambda: all(is_open(ports[name]) for name in kinds))
    with contextlib.ExitStack() as stack:
        clients = {name: stack.enter_context(contextlib.closing(RoundTripClient(ports[name]))) for name in kinds}
        rounds = bench.alternate({name: getter(client) for name, client in clients.items()}, 20)
    check_envoy(ports["admin"], sum(map(len, rounds["asking"])))
    bench.servers.stop(process)
    plain_p50, plain_p99 = median_of(p50, rounds["plain"]), median_of(p99, rounds["plain"])
    for name, kind in kinds.items():
        own = median_of(p50, rounds[name]), median_of(p99, rounds[name])
        added = "" if name == "plain" else f": {own[0] - plain_p50:.0f} and {own[1] - plain_p99:.0f} µs more"
        report.print_figure("envoy", f"a request {kind}, p50 {own[0]:.0f} µs, p99 {own[1]:.0f} µs{added}")


def getter(client: RoundTripClient) -> Callable[[], None]:
    def get() -> None:
        answer = client.exchange(GET, lambda data: data.endswith(b"passed") or not data.startswith(b"HTTP/1.1 200 "))
        if not answer.endswith(b"passed"):
            raise Failure(f"Envoy answered {answer!r}")

    return get


def is_open(port: int) -> bool:
    try:
        with contextlib.closing(RoundTripClient(port)) as client:
            getter(client)()
    except (OSError, Failure):
        return False
    return True


def check_envoy(port: int, requests: int) -> None:
    """Checks that both limits decided each request, because Envoy also allows requests without a decision."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats", timeout=TIMEOUT) as answer:
        text = answer.read().decode()
    for name in ("local.http_local_rate_limit.ok", "cluster.upstream.ratelimit.ok"):
        found = re.search(rf"^{re.escape(name)}: (\d+)$", text, re.MULTILINE)
        if not found or int(found[1]) < requests:
            raise Failure(f"Envoy counts {found[1] if found else 'none'} of {requests:,} requests as {name}")


def floods(bench: Bench, report: Report) -> None:
    for kind, (_, unit) in FLOODS.items():
        measure_flood(bench, report, kind, unit)


def measure_flood(bench: Bench, report: Report, kind: str, unit: str) -> None:
    sidecar = bench.start_sidecar()
    idle_bytes = reset_peak_resident(sidecar)
    before: list[float] = []
    during: list[float] = []
    sent: list[float] = []
    disconnects: list[float] = []
    try:
        for _ in range(bench.rounds):
            with bench.client() as client:
                before.append(watch(client, bench))
                with flooding(kind, bench.grpc) as flood:
                    began, sent_before, disconnects_before = time.monotonic(), flood.sent(), flood.disconnects()
                    during.append(watch(client, bench))
                    took = time.monotonic() - began
                    sent.append((flood.sent() - sent_before) / took)
                    disconnects.append((flood.disconnects() - disconnects_before) / took)
                    if not flood.is_alive():
                        raise Failure(f"the flood of {kind} ended early")
        is_healthy = bench.is_healthy()
    except OSError as error:
        report.check_target("floods", f"{kind}: another client got {error!r}", "no error", False)
        return
    p99_before, p99_during = statistics.median(before), statistics.median(during)
    report.check_target(
        "floods",
        f"{kind}: p99 of another client {p99_during:,.0f} µs, before {p99_before:,.0f} µs: "
        f"{p99_during / p99_before:.1f} times; {statistics.median(sent):,.0f} {unit} sent and "
        f"{statistics.median(disconnects):,.0f} connections closed a second",
        f"at most {MAX_FACTOR} times",
        p99_during <= p99_before * MAX_FACTOR,
    )
    growth = peak_resident(sidecar) - idle_bytes
    report.check_target(
        "floods",
        f"{kind}: {idle_bytes / 1e6:.0f} MB before, {growth / 1e6:.0f} MB more at most; "
        f"afterwards {'healthy' if is_healthy else 'not healthy'}",
        f"at most {MAX_GROWTH / 1e6:.0f} MB more, and healthy",
        growth <= MAX_GROWTH and is_healthy,
    )


def watch(client: GatewayClient, bench: Bench) -> float:
    return p99(call_times(lambda: ask(client), WATCH_SECONDS * bench.scale))


@contextlib.contextmanager
def flooding(kind: str, port: int) -> Iterator[Flood]:
    flood = Flood(kind, port)
    try:
        time.sleep(FLOOD_LEAD)
        yield flood
    finally:
        flood.stop()


FIGURES = {"rate": rate, "latency": latency, "envoy": envoy, "floods": floods}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the interlock program")
    parser.add_argument("--only", choices=FIGURES, help="measure only this figure")
    parser.add_argument("--quick", action="store_true", help="run one short round, to check that it works")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    report = Report()
    bench = Bench(arguments.binary.resolve(), 1 if arguments.quick else arguments.rounds, 0.2 if arguments.quick else 1)
    try:
        for name, figure in FIGURES.items():
            if arguments.only in (None, name):
                figure(bench, report)
    except Failure as failure:
        sys.exit(f"bench-envoy: {failure}")
    finally:
        bench.servers.close()
    if report.missed:
        sys.exit("bench-envoy: missed\n" + "\n".join(f"  {missed}" for missed in report.missed))


if __name__ == "__main__":
    main()

"""The sample of docs/envoy: what a real Envoy does about breakers, places and quotas that a sidecar tells it of.

`make envoy` runs it after the limits of `gateways.py`.
"""

import http.client
import json
import re
import threading
import time
from pathlib import Path

from servers import HTTP, PATIENCE, REDIS, Connection, Failure, World, free_ports

SAMPLE = Path(__file__).resolve().parents[2] / "docs/envoy"
EDGE, GRPC, UPSTREAM = 10000, 7381, 8080


class Sample:
    """The sidecar and the Envoy of the tour, at the ports of this run; the upstream fails while it is down."""

    def __init__(self, world: World, envoy: Path) -> None:
        self.world = world
        edge, grpc = free_ports(2)
        self.ports = world.ports | {EDGE: edge, GRPC: grpc, UPSTREAM: world.upstream.server_port}
        self.ports[6379] = world.ports[REDIS]
        self.sidecar = world.start(str(world.binary), "serve", "--config", str(self.file("interlock.yaml")))
        world.until("the sidecar is ready", lambda: world.readiness() == 200)
        self.envoys = [self.start_envoy(envoy, edge)]

    def start_envoy(self, envoy: Path, port: int) -> int:
        ports = self.ports | {EDGE: port}
        file = self.file("envoy.yaml", ports)
        self.world.start(str(envoy), "-c", str(file), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
        self.world.until("Envoy answers", lambda: self.answers(port))
        return port

    def file(self, name: str, ports: dict[int, int] | None = None) -> Path:
        ports = ports or self.ports
        text = re.sub(
            rf"(?<!\d)({'|'.join(map(str, ports))})(?!\d)",
            lambda found: str(ports[int(found[1])]),
            (SAMPLE / name).read_text(),
        )
        file = self.world.folder / f"{ports[EDGE]}-{name}"
        file.write_text(text)
        return file

    def answers(self, port: int) -> bool:
        try:
            return self.ask("/", port=port)[0] != 0
        except OSError:
            return False

    def ask(
        self, path: str, headers: dict[str, str] | None = None, port: int | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.envoys[0], timeout=PATIENCE)
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body

    def sidecar_says(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.world.ports[HTTP], timeout=PATIENCE)
        connection.request("GET", path)
        body = connection.getresponse().read()
        connection.close()
        return body

    def breaker(self) -> str:
        return str(json.loads(self.sidecar_says("/v1/services/shop"))["state"])

    def metric(self, name: str) -> float:
        for line in self.sidecar_says("/metrics").decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return 0


def addresses(sample: Sample) -> None:
    """An address has five requests in a second, whatever it asks for; what a busy sidecar refuses does not count."""
    for number in range(50):
        status, headers, _ = sample.ask(f"/search?q={number}")
        if status == 429 and headers.get("interlock-cause") == "limit":
            break
    else:
        raise Failure("fifty requests of one address were let pass")
    told = headers["ratelimit"], headers["ratelimit-policy"]
    if number < 5 or not told[0].startswith('"remote_address";r=0') or told[1] != '"remote_address";q=5;w=1':
        raise Failure(f"of one address, request {number + 1} was refused, and told {told}")


def outcomes(sample: Sample) -> None:
    """The access log closes the circle: Envoy's failures open the breaker, and a trial through Envoy closes it."""
    world = sample.world
    reported = 'interlock_access_log_entries_total{result="reported"}'
    if [sample.ask("/shop")[0] for _ in range(10)] != [200] * 10:
        raise Failure("a service that is well is not reached")
    world.until("Envoy has reported ten calls", lambda: sample.metric(reported) == 10)
    world.happen("upstream", "down")
    world.until("the breaker is open", lambda: sample.ask("/shop") and sample.breaker() == "open")
    status, headers, body = sample.ask("/shop")
    problem = json.loads(body)
    if (status, headers["content-type"], problem["code"]) != (503, "application/problem+json", "open"):
        raise Failure(f"an open breaker answers {status} {headers} {body!r}")
    if not 1 <= int(headers["retry-after"]) <= 10:
        raise Failure(f"an open breaker says to come again after {headers['retry-after']} s")
    if sample.ask("/checked")[0] != 503:
        raise Failure("without outcomes an open breaker lets a call pass")
    world.happen("upstream", "up")
    world.until("the breaker is closed", lambda: sample.ask("/shop") and sample.breaker() == "closed")
    if sample.ask("/shop")[0] != 200:
        raise Failure("a closed breaker does not let a call pass")
    late = sample.metric('interlock_access_log_entries_total{result="late"}')
    told = sample.metric(reported)
    print(f"envoy: the breaker opened and closed by {told:.0f} outcomes from the access log, {late:.0f} late")
    world.until("no permit is under way", lambda: sample.metric("interlock_permits_under_way") == 0)


def quotas(sample: Sample, envoy: Path) -> None:
    """Two Envoys divide ten requests a second: the first has them all, until what it was told of them is over."""
    sample.envoys.append(sample.start_envoy(envoy, free_ports(1)[0]))
    passed: dict[int, list[float]] = {port: [] for port in sample.envoys}
    began = time.monotonic()
    is_over = threading.Event()

    def load(port: int) -> None:
        while not is_over.is_set():
            status = sample.ask("/", {"x-tenant": "acme"}, port)[0]
            if status == 200:
                passed[port].append(time.monotonic())
            elif status != 429:
                raise Failure(f"a quota answers {status}")
            time.sleep(0.02)

    threads = [threading.Thread(target=load, args=[port]) for port in sample.envoys]
    for thread in threads:
        thread.start()
    most = 0
    redis = Connection(sample.world.ports[REDIS])

    def both_pass() -> bool:
        """Whether each has let four requests pass in each of the last two seconds; looks at the shares meanwhile."""
        nonlocal most
        shares = redis.call("HVALS", "interlock:quota:{quota}:plan=free,tenant=acme:1s")
        assert isinstance(shares, list)
        now = redis_milliseconds(redis)
        most = max(most, sum(held(str(share), now) for share in shares))
        last = time.monotonic()
        return all(
            sum(1 for at in times if last - second - 1 < at <= last - second) >= 4
            for times in passed.values()
            for second in (0, 1)
        )

    try:
        sample.world.until("both Envoys have a part of the quota", both_pass, 60)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    took = time.monotonic() - began
    total = sum(len(times) for times in passed.values())
    print(f"envoy: two Envoys passed {total} requests in {took:.0f} s of a quota of 10/s, {most} assigned at most")
    # Full buckets are let out besides: of the first ten, of the second its part.
    if most > 10 or total > 10 * took + 20 or total < 5 * took:
        raise Failure(f"a quota of 10/s assigned {most}, and {total} requests passed in {took:.1f} s")


def held(share: str, now: int) -> int:
    """What counts of an assignment as Redis has it: it, or the greater one before it."""
    current, till, former, former_till, _ = map(int, share.split())
    return max(current if till > now else 0, former if former_till > now else 0)


def redis_milliseconds(redis: Connection) -> int:
    answer = redis.call("TIME")
    assert isinstance(answer, list)
    return int(answer[0]) * 1000 + int(answer[1]) // 1000


def check_guards(world: World, envoy: Path) -> None:
    sample = Sample(world, envoy)
    addresses(sample)
    outcomes(sample)
    quotas(sample, envoy)

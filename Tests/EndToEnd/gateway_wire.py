"""Checks limits with gRPC's own client: hits, limits in requests, metrics, timely responses, and quotas.

`make test-envoy` runs it, with the real Envoys of `gateways.py`.
"""

import contextlib
import http.client
import signal
import threading
import time
from collections.abc import Iterator

import grpc
from envoy.extensions.common.ratelimit.v3 import ratelimit_pb2
from envoy.service.accesslog.v3 import als_pb2, als_pb2_grpc
from envoy.service.rate_limit_quota.v3 import rlqs_pb2, rlqs_pb2_grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from envoy.type.v3 import ratelimit_unit_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from servers import REDIS, TIMEOUT, Failure, Servers, free_ports, is_open

OK, OVER_LIMIT = rls_pb2.RateLimitResponse.OK, rls_pb2.RateLimitResponse.OVER_LIMIT
HOUR = 3600
#: `is_negative_hits` of a descriptor, which the published package does not have yet.
NEGATIVE = b"\x20\x01"
#: The maximum number of values with separate metrics.
DETAILED_VALUES = 1000
#: The quota per second that data planes divide, and the lifetime of an assignment.
QUOTA, LIFETIME = 100, 15
#: The maximum duration of a thousand long calls on a busy machine, in seconds.
MAX_LONG_CALLS_SECONDS = 30
#: The maximum duration of a response that must not wait, on a busy machine, in seconds.
MAX_RESPONSE_SECONDS = 2.0

CONFIGURATION = """
rls: {{ timeout: {timeout} }}
services:
  narrow: {{ limits: [{{ limit: 2, per: 1h }}] }}
  personal: {{ limits: [{{ limit: 2, per: 1h, per_subject: true, subject: required }}] }}
  single: {{ concurrency: 1 }}
  # All kinds of failures in a row open the breaker.
  failing: {{ breaker: {{ consecutive_failures: {failures}, minimum_calls: 1000, ignore: [505], open_for: 30s..60s }} }}
  # A single failed or slow call opens the breaker.
  well: {{ breaker: {{ consecutive_failures: 1, slow_call: 100ms, slow_rate: 1%, minimum_calls: 1, ignore: [505] }} }}
  slow: {{ breaker: {{ slow_call: 100ms, minimum_calls: 1, open_for: 30s..60s }} }}
  unavailable: {{ }}
rate_limits:
  hits:
    descriptors:
      - {{ key: hits, limit: 10, per: 1h, name: ten }}
      - {{ key: even, limit: 3600, per: 1h, algorithm: gcra, burst: 2 }}
  detail:
    descriptors: [{{ key: detail, limit: 5, per: 1h, detailed_metrics: true }}]
  local:
    when_redis_is_down: local
    descriptors: [{{ key: late, limit: 4, per: 1h }}]
  allow:
    when_redis_is_down: allow
    descriptors: [{{ key: late, limit: 1, per: 1h }}]
  deny:
    when_redis_is_down: deny
    descriptors: [{{ key: late, limit: 100000, per: 1h }}]
  parts:
    descriptors: [{{ key: tenant, limit: {quota}, per: 1s }}]
"""


class Sidecar:
    """A sidecar with a gRPC API and its own configuration."""

    def __init__(self, servers: Servers, name: str, configuration: str, tls: str = "") -> None:
        self.servers = servers
        resp, self.http, self.grpc = free_ports(3)
        resp_at, http_at, grpc_at = (f'"127.0.0.1:{port}"' for port in (resp, self.http, self.grpc))
        file = servers.folder / f"{name}.yaml"
        # A long timeout: a busy machine must not count as an unreachable Redis, whose limits differ.
        file.write_text(
            f'redis: {{ url: "redis://127.0.0.1:{servers.ports[REDIS]}", timeout: 10s }}\n'
            f"listen: {{ resp: {resp_at}, http: {http_at}, grpc: {grpc_at}{tls} }}\n"
            f"{configuration}"
        )
        self.process = servers.start(str(servers.binary), "serve", "--config", str(file))
        servers.wait_until(f"the listener of {name} is open", lambda: is_open(self.grpc))

    def until_ready(self, status: int) -> None:
        self.servers.wait_until(f"the sidecar's readiness is {status}", lambda: self.readiness() == status)

    def readiness(self) -> int:
        try:
            return self.get("/readyz", 2)[0]
        except OSError:
            return 0

    def get(self, path: str, timeout: float = TIMEOUT) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def series(self, name: str, *labels: str) -> dict[str, float]:
        """Returns a metric's values by their labels, restricted to series with the given labels."""
        lines = (line for line in self.get("/metrics")[1].splitlines() if line.startswith((name + "{", name + " ")))
        values = (line.removeprefix(name).rsplit(" ", 1) for line in lines if all(label in line for label in labels))
        return {labels: float(value) for labels, value in values}

    def metric(self, name: str, *labels: str) -> float:
        return sum(self.series(name, *labels).values())


def descriptor_of(
    key: str, value: str, hits: int | None = None, override: tuple[int, str] | None = None
) -> ratelimit_pb2.RateLimitDescriptor:
    """Returns a descriptor of one entry. Negative hits are refunds."""
    descriptor = ratelimit_pb2.RateLimitDescriptor(
        entries=[ratelimit_pb2.RateLimitDescriptor.Entry(key=key, value=value)]
    )
    if override:
        descriptor.limit.requests_per_unit = override[0]
        descriptor.limit.unit = ratelimit_unit_pb2.RateLimitUnit.Value(override[1])
    if hits is not None:
        descriptor.hits_addend.value = abs(hits)
        if hits < 0:
            descriptor.MergeFromString(NEGATIVE)
    return descriptor


class DomainClient:
    """Sends a request about one domain."""

    def __init__(self, channel: grpc.Channel, domain: str) -> None:
        self.stub = rls_pb2_grpc.RateLimitServiceStub(channel)
        self.domain = domain

    def request(
        self, *descriptors: ratelimit_pb2.RateLimitDescriptor, hits: int = 0
    ) -> tuple[rls_pb2.RateLimitResponse, dict[str, str]]:
        """Returns the response, and the fields for the proxy's caller."""
        request = rls_pb2.RateLimitRequest(domain=self.domain, descriptors=descriptors, hits_addend=hits)
        answer = self.stub.ShouldRateLimit(request, timeout=TIMEOUT)
        return answer, {field.key.lower(): field.value for field in answer.response_headers_to_add}

    def expect(
        self,
        case: str,
        descriptor: ratelimit_pb2.RateLimitDescriptor,
        code: int,
        remaining: int,
        expected_reset: int,
        hits: int = 0,
    ) -> rls_pb2.RateLimitResponse.DescriptorStatus:
        """Checks the response to one descriptor, whose limit resets fully in `expected_reset` seconds."""
        answer, fields = self.request(descriptor, hits=hits)
        status = answer.statuses[0]
        if (answer.overall_code, status.code, status.limit_remaining) != (code, code, remaining):
            raise Failure(f"{case}: expected code {code} and {remaining} remaining, got {answer}")
        reset = status.duration_until_reset.seconds + status.duration_until_reset.nanos / 1e9
        is_taken = remaining < status.current_limit.requests_per_unit
        if reset > expected_reset or (is_taken and reset <= expected_reset - 60):
            raise Failure(f"{case}: the limit resets in {reset} s, not in {expected_reset} s")
        if fields.get("interlock-cause") != ("limit" if code == OVER_LIMIT else None):
            raise Failure(f"{case}: the caller gets {fields}")
        return status


def hits(channel: grpc.Channel) -> None:
    """Checks hits of the request or the descriptor, including zero and negative ones."""
    client = DomainClient(channel, "hits")
    for case, of_request, of_descriptor, code, remaining in (
        ("a check of a fresh limit", 0, 0, OK, 10),
        ("three hits of the request", 3, None, OK, 7),
        ("five hits of the descriptor, instead of the request's three", 3, 5, OK, 2),
        ("a check, instead of the request's three", 3, 0, OK, 2),
        ("three hits where two are left", 3, None, OVER_LIMIT, 2),
        ("a check after a refusal, which takes nothing", 0, 0, OK, 2),
        ("absent hits, which count as one", 0, None, OK, 1),
        ("the last hit", 1, None, OK, 0),
        ("a check of a limit that is used up", 0, 0, OK, 0),
        ("one more hit", 0, None, OVER_LIMIT, 0),
        ("four refunded hits", 0, -4, OK, 4),
        ("three of the four", 3, None, OK, 1),
        ("more hits refunded than taken", 0, -1000, OK, 10),
    ):
        status = client.expect(case, descriptor_of("hits", "a", of_descriptor), code, remaining, HOUR, of_request)
        limit = status.current_limit
        if (limit.requests_per_unit, limit.unit, limit.name) != (10, rls_pb2.RateLimitResponse.RateLimit.HOUR, "ten"):
            raise Failure(f"{case}: the limit is reported as {limit}")
    answer, _ = client.request(
        descriptor_of("hits", "b"), descriptor_of("hits", "c", 4), descriptor_of("hits", "d", 0), hits=3
    )
    if [status.limit_remaining for status in answer.statuses] != [7, 6, 10]:
        raise Failure(f"three descriptors with hits of 3, 4 and 0 leave {answer}")
    # All or nothing: a descriptor over its limit takes nothing from the others.
    answer, _ = client.request(descriptor_of("hits", "b"), descriptor_of("hits", "c", 7))
    codes = [status.code for status in answer.statuses]
    if (answer.overall_code, codes) != (OVER_LIMIT, [OK, OVER_LIMIT]):
        raise Failure(f"one of two descriptors is over its limit, but the response is {answer}")
    for value, remaining in (("b", 7), ("c", 6)):
        client.expect("a check after both were refused", descriptor_of("hits", value, 0), OK, remaining, HOUR)


def check_overrides(channel: grpc.Channel) -> None:
    """Checks that a descriptor's override applies, and is counted separately from the rule's limit."""
    client = DomainClient(channel, "hits")
    unit = rls_pb2.RateLimitResponse.RateLimit
    client.expect("the rule's limit", descriptor_of("hits", "own", 4), OK, 6, HOUR)
    for case, taken, code, remaining in (
        ("an override", 3, OK, 1),
        ("more than remains of it", 2, OVER_LIMIT, 1),
        ("the last hit of it", 1, OK, 0),
    ):
        status = client.expect(case, descriptor_of("hits", "own", taken, (4, "MINUTE")), code, remaining, 60)
        if (status.current_limit.requests_per_unit, status.current_limit.unit) != (4, unit.MINUTE):
            raise Failure(f"{case} is reported as {status}")
    client.expect("another override", descriptor_of("hits", "own", 1, (1, "DAY")), OK, 0, 24 * HOUR)
    client.expect("an override of zero", descriptor_of("hits", "own", 1, (0, "DAY")), OVER_LIMIT, 0, 24 * HOUR)
    client.expect("the rule's limit, after others", descriptor_of("hits", "own", 0), OK, 6, HOUR)
    # The rule's algorithm and burst apply: a burst of three hits, each restored after six minutes.
    client.expect("an evenly spaced override", descriptor_of("even", "own", 3, (10, "HOUR")), OK, 0, 1080)
    client.expect("a hit before its time", descriptor_of("even", "own", 1, (10, "HOUR")), OVER_LIMIT, 0, 1080)
    # The limit applies even if no rule matches.
    client.expect("an override without a rule", descriptor_of("nothing", "own", 2, (2, "HOUR")), OK, 0, HOUR)
    client.expect("more than that", descriptor_of("nothing", "own", 1, (2, "HOUR")), OVER_LIMIT, 0, HOUR)


def long_calls(channel: grpc.Channel) -> None:
    """Checks that long calls are read quickly. They would take a minute if each part used a frame of the budget."""
    client = DomainClient(channel, "hits")
    descriptor = descriptor_of("nothing", "x" * 32_000)
    began = time.monotonic()
    for _ in range(1000):
        if client.request(descriptor)[0].overall_code != OK:
            raise Failure("a long descriptor without a rule is refused")
    if (took := time.monotonic() - began) > MAX_LONG_CALLS_SECONDS:
        raise Failure(f"a thousand calls of 32 KB took {took:.0f} s")


def check_details(sidecar: Sidecar, channel: grpc.Channel) -> None:
    """Checks that a rule with detailed metrics has a thousand series, and one for all other values."""
    client = DomainClient(channel, "detail")
    for start in (0, 550):
        answer, _ = client.request(*(descriptor_of("detail", f"v{number}") for number in range(start, start + 550)))
        if answer.overall_code != OK:
            raise Failure(f"550 values with separate limits are refused: {answer}")
    client.request(descriptor_of("detail", "v7", 5))
    known = sidecar.series("interlock_descriptor_decisions_total", 'domain="detail"', 'rule="detail=')
    if len({labels.split('rule="')[1].split('"')[0] for labels in known}) != DETAILED_VALUES:
        raise Failure(f"the metrics have {len(known)} series for 1,100 values")
    for rule, decision, count in (
        ("detail=v7", "ok", 1),
        ("detail=v7", "over_limit", 1),
        ("detail=v999", "ok", 1),
        ("other", "ok", 100),
    ):
        labels = f'rule="{rule}"', f'decision="{decision}"'
        seen = sidecar.metric("interlock_descriptor_decisions_total", 'domain="detail"', *labels)
        if seen != count:
            raise Failure(f"{rule} was {decision} {count} times, and the metrics have {seen:.0f}")
    print(f"envoy: {DETAILED_VALUES} of 1,100 values have their own metrics")


def check_timeouts(servers: Servers, sidecar: Sidecar) -> None:
    """Checks that each domain's policy answers while Redis is paused, and that Redis decides again afterwards."""
    assert servers.redis
    slowest = 0.0
    with grpc.insecure_channel(f"127.0.0.1:{sidecar.grpc}") as channel:

        def expect(domain: str, value: str, cause: str | None) -> rls_pb2.RateLimitResponse:
            nonlocal slowest
            began = time.monotonic()
            answer, fields = DomainClient(channel, domain).request(descriptor_of("late", value))
            slowest = max(slowest, time.monotonic() - began)
            if (answer.overall_code, fields.get("interlock-cause")) != (OVER_LIMIT if cause else OK, cause):
                raise Failure(f"while Redis is paused {domain} returns {answer}")
            return answer

        def redis_decides() -> bool:
            answer, fields = DomainClient(channel, "deny").request(descriptor_of("late", "until"))
            return answer.overall_code == OK and fields["ratelimit"].startswith('"late"')

        servers.wait_until("Redis decides in time", redis_decides)
        before = sidecar.metric("interlock_descriptor_requests_local_total")
        servers.redis.send_signal(signal.SIGSTOP)
        try:
            # This sidecar is the only one, so its local quota is the whole limit.
            for cause in (None, None, None, None, "local", "local"):
                expect("local", "a", cause)
            for _ in range(5):
                expect("allow", "a", None)
            for _ in range(5):
                if expect("deny", "a", "redis").statuses[0].HasField("current_limit"):
                    raise Failure("the remainder is reported without Redis")
        finally:
            servers.redis.send_signal(signal.SIGCONT)
        if (count := sidecar.metric("interlock_descriptor_requests_local_total") - before) != 16:
            raise Failure(f"16 requests were answered without Redis, but the metrics have {count:.0f}")
        servers.wait_until("Redis decides again", redis_decides)
    print(f"envoy: while Redis was paused the slowest of 16 responses took {slowest * 1000:.0f} ms")
    if slowest > MAX_RESPONSE_SECONDS:
        raise Failure(f"while Redis was paused a response took {slowest:.1f} s")


class Assignments:
    """The assignments of each tenant's quota to data planes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: Each assignment, with its expiry.
        self.active: dict[tuple[DataPlane, str], tuple[int, float]] = {}
        self.maximum = 0
        self.unexpected: list[str] = []

    def record(self, data_plane: "DataPlane", action: rlqs_pb2.RateLimitQuotaResponse.BucketAction) -> None:
        tenant, fields = action.bucket_id.bucket["tenant"], action.quota_assignment_action
        bucket = fields.rate_limit_strategy.token_bucket
        share = bucket.tokens_per_fill.value
        seen = fields.assignment_time_to_live.seconds, bucket.fill_interval.seconds, bucket.max_tokens
        with self.lock:
            if seen != (LIFETIME, 1, share):
                self.unexpected.append(str(action))
            now = time.monotonic()
            self.active[data_plane, tenant] = share, now + LIFETIME
            all_held = (active for (_, of), (active, until) in self.active.items() if of == tenant and until > now)
            self.maximum = max(self.maximum, sum(all_held))

    def of(self, data_plane: "DataPlane", tenant: str) -> int:
        with self.lock:
            return self.active.get((data_plane, tenant), (0, 0.0))[0]


class DataPlane:
    """Runs a data plane that reports more demand than the quota twice a second."""

    def __init__(self, assignments: Assignments, sidecar: Sidecar, *tenants: str) -> None:
        self.assignments = assignments
        self.tenants = tenants
        self.is_over = threading.Event()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{sidecar.grpc}")
        self.answers = rlqs_pb2_grpc.RateLimitQuotaServiceStub(self.channel).StreamRateLimitQuotas(self.reports())
        threading.Thread(target=self.listen, daemon=True).start()

    def reports(self) -> Iterator[rlqs_pb2.RateLimitQuotaUsageReports]:
        elapsed = 0
        while True:
            reports = rlqs_pb2.RateLimitQuotaUsageReports(domain="parts")
            for tenant in self.tenants:
                usage = reports.bucket_quota_usages.add(num_requests_allowed=QUOTA)
                usage.bucket_id.bucket["tenant"] = tenant
                usage.time_elapsed.FromMilliseconds(elapsed)
            yield reports
            elapsed = 500
            if self.is_over.wait(elapsed / 1000):
                return

    def listen(self) -> None:
        # A broken stream ends the data plane, and the checks that wait for it fail.
        with contextlib.suppress(grpc.RpcError):
            for answer in self.answers:
                for action in answer.bucket_action:
                    self.assignments.record(self, action)

    def close(self) -> None:
        self.is_over.set()
        self.channel.close()


def check_quotas(servers: Servers, sidecars: list[Sidecar]) -> None:
    """Checks that data planes of two sidecars get equal parts, never exceed the quota, and lose it when they leave."""
    assignments = Assignments()
    leaving = DataPlane(assignments, sidecars[1], "left")
    servers.wait_until("the only data plane has the whole quota", lambda: assignments.of(leaving, "left") == QUOTA)
    leaving.close()
    data_planes = [DataPlane(assignments, sidecars[0], "shared", "left")]
    servers.wait_until(
        "the first data plane has the whole quota", lambda: assignments.of(data_planes[0], "shared") == QUOTA
    )
    data_planes.append(DataPlane(assignments, sidecars[1], "shared"))

    def is_divided() -> bool:
        return [assignments.of(data_plane, "shared") for data_plane in data_planes] == [QUOTA / 2] * 2

    began = time.monotonic()
    try:
        servers.wait_until(
            "the quota is divided, and another data plane gets the part of one that left",
            lambda: is_divided() and assignments.of(data_planes[0], "left") == QUOTA,
            4 * TIMEOUT,
        )
    finally:
        for data_plane in data_planes:
            data_plane.close()
    if assignments.maximum > QUOTA or assignments.unexpected:
        raise Failure(f"{assignments.maximum} of a quota of {QUOTA} were assigned, and {assignments.unexpected}")
    took = time.monotonic() - began
    print(f"envoy: two sidecars divided a quota of {QUOTA} in {took:.0f} s, {assignments.maximum} assigned at most")


def check_shutdown(sidecar: Sidecar) -> None:
    """Checks that a shutdown is reported to health watches and to calls, and that access logs end."""
    is_over = threading.Event()

    def logged() -> Iterator[als_pb2.StreamAccessLogsMessage]:
        message = als_pb2.StreamAccessLogsMessage()
        message.http_logs.log_entry.add()
        yield message
        is_over.wait()

    with grpc.insecure_channel(f"127.0.0.1:{sidecar.grpc}") as channel:
        log = als_pb2_grpc.AccessLogServiceStub(channel).StreamAccessLogs.future(logged())
        counted = "interlock_access_log_entries_total", 'result="foreign"'
        sidecar.servers.wait_until("an entry is counted", lambda: sidecar.metric(*counted) == 1)
        request = health_pb2.HealthCheckRequest(service="envoy.service.ratelimit.v3.RateLimitService")
        watch = health_pb2_grpc.HealthStub(channel).Watch(request, timeout=TIMEOUT)
        if next(watch).status != health_pb2.HealthCheckResponse.SERVING:
            raise Failure("a watch does not start with the status")
        sidecar.process.send_signal(signal.SIGTERM)
        if next(watch).status != health_pb2.HealthCheckResponse.NOT_SERVING:
            raise Failure("a health watch does not report the shutdown")
        try:
            next(watch)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise Failure(f"a watch ends at the shutdown as {error.code()}, not as unavailable") from error
        else:
            raise Failure("a watch continues after it reported the shutdown")
        broken = log.exception(timeout=TIMEOUT)
        is_over.set()
        if broken:
            raise Failure(f"an access log ends at the shutdown with {broken}")
    if sidecar.process.wait(TIMEOUT) != 0:
        raise Failure("a sidecar with a health watch does not shut down cleanly")


def check_wire(sidecar: Sidecar) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{sidecar.grpc}") as channel:
        hits(channel)
        check_overrides(channel)
        check_details(sidecar, channel)

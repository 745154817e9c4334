"""Checks breakers, bulkheads and quotas with a real Envoy (the sample of docs/envoy) and with gRPC's own client.

`make envoy` runs the first after the limits of `gateways.py`, and the second before them.
"""

import http.client
import json
import queue
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from envoy.data.accesslog.v3 import accesslog_pb2
from envoy.service.accesslog.v3 import als_pb2, als_pb2_grpc
from envoy.service.auth.v3 import external_auth_pb2, external_auth_pb2_grpc

from gateway_wire import HOUR, Sidecar
from servers import HTTP, PATIENCE, REDIS, Connection, Failure, World, free_ports

SAMPLE = Path(__file__).resolve().parents[2] / "docs/envoy"
EDGE, GRPC, UPSTREAM = 10000, 7381, 8080


class Sample:
    """The tour's sidecar and Envoy on this run's ports. The upstream fails while it is down."""

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
    """Checks that an address gets five requests a second, not counting those that a busy sidecar refuses."""
    for number in range(50):
        status, headers, _ = sample.ask(f"/search?q={number}")
        if status == 429 and headers.get("interlock-cause") == "limit":
            break
    else:
        raise Failure("fifty requests of one address were allowed")
    told = headers["ratelimit"], headers["ratelimit-policy"]
    if number < 5 or not told[0].startswith('"remote_address";r=0') or told[1] != '"remote_address";q=5;w=1':
        raise Failure(f"request {number + 1} of one address was refused with {told}")


def outcomes(sample: Sample) -> None:
    """Checks that failures in Envoy's access log open the breaker, and that a trial through Envoy closes it."""
    world = sample.world
    reported = 'interlock_access_log_entries_total{result="reported"}'
    if [sample.ask("/shop")[0] for _ in range(10)] != [200] * 10:
        raise Failure("a healthy service is not reached")
    world.until("Envoy has reported ten calls", lambda: sample.metric(reported) == 10)
    world.happen("upstream", "down")
    world.until("the breaker is open", lambda: sample.ask("/shop") and sample.breaker() == "open")
    status, headers, body = sample.ask("/shop")
    problem = json.loads(body)
    if (status, headers["content-type"], problem["code"]) != (503, "application/problem+json", "open"):
        raise Failure(f"an open breaker responds with {status} {headers} {body!r}")
    if not 1 <= int(headers["retry-after"]) <= 10:
        raise Failure(f"an open breaker has a Retry-After of {headers['retry-after']} s")
    if sample.ask("/checked")[0] != 503:
        raise Failure("an open breaker allows a call without outcomes")
    world.happen("upstream", "up")
    world.until("the breaker is closed", lambda: sample.ask("/shop") and sample.breaker() == "closed")
    if sample.ask("/shop")[0] != 200:
        raise Failure("a closed breaker refuses a call")
    late = sample.metric('interlock_access_log_entries_total{result="late"}')
    told = sample.metric(reported)
    print(f"envoy: {told:.0f} outcomes from the access log opened and closed the breaker, {late:.0f} of them late")
    world.until("no permit is active", lambda: sample.metric("interlock_permits_active") == 0)


def quotas(sample: Sample, envoy: Path) -> None:
    """Checks that two Envoys divide ten requests a second. The first has them all until its assignment expires."""
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
                raise Failure(f"a quota responds with {status}")
            time.sleep(0.02)

    threads = [threading.Thread(target=load, args=[port]) for port in sample.envoys]
    for thread in threads:
        thread.start()
    most = 0
    redis = Connection(sample.world.ports[REDIS])

    def both_pass() -> bool:
        """Returns whether each Envoy allowed four requests in each of the last two seconds. Records assignments."""
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
        sample.world.until("both Envoys have part of the quota", both_pass, 60)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    took = time.monotonic() - began
    total = sum(len(times) for times in passed.values())
    print(f"envoy: two Envoys passed {total} requests in {took:.0f} s of a quota of 10/s, {most} assigned at most")
    # Full buckets are extra: ten for the first Envoy, and its portion for the second.
    if most > 10 or total > 10 * took + 20 or total < 5 * took:
        raise Failure(f"a quota of 10/s assigned {most}, and {total} requests passed in {took:.1f} s")


def held(share: str, now: int) -> int:
    """Returns the effective assignment: the one in Redis, or a larger one before it."""
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


# ---- what gRPC's own client receives

#: Whether Envoy's access log reports the outcome of a call.
UNREPORTED: dict[str, str] = {}
REPORTED = {"outcome": "access_log"}
#: The nesting depth of another filter's data in an access log entry.
NESTED = 20


class Filter:
    """Requests permission for a call, like Envoy's filter."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.stub = external_auth_pb2_grpc.AuthorizationStub(channel)

    def ask(self, extensions: dict[str, str], headers: dict[str, str] | None = None) -> external_auth_pb2.CheckResponse:
        request = external_auth_pb2.CheckRequest()
        request.attributes.context_extensions.update(extensions)
        request.attributes.request.http.headers.update(headers or {})
        return self.stub.Check(request, timeout=PATIENCE)

    def expect_pass(self, what: str, headers: dict[str, str] | None = None, **extensions: str) -> dict[str, str]:
        """Returns the fields that Envoy adds to the service's response."""
        answer = self.ask(extensions, headers)
        if answer.status.code or not answer.HasField("ok_response"):
            raise Failure(f"{what}: {answer}")
        return fields_of(answer.ok_response.response_headers_to_add)

    def permit(self, service: str) -> Any:
        """Returns a permit's metadata in Envoy's form."""
        answer = self.ask({"service": service, **REPORTED})
        metadata = answer.dynamic_metadata
        if not answer.HasField("ok_response") or set(metadata.fields) != {"interlock.permit", "interlock.service"}:
            raise Failure(f"expected a permit for {service}, got {answer}")
        return metadata

    def expect_denial(self, what: str, code: grpc.StatusCode, status: int, **extensions: str) -> dict[str, str]:
        """Checks that Envoy's caller gets this status with a problem document. Returns its fields."""
        answer = self.ask(extensions)
        denial = answer.denied_response
        fields = fields_of(denial.headers)
        seen = answer.status.code, denial.status.code, fields.get("content-type")
        if seen != (code.value[0], status, "application/problem+json") or json.loads(denial.body)["status"] != status:
            raise Failure(f"{what}: {answer}")
        if status != 400 and not fields.get("retry-after", "").isdigit():
            raise Failure(f"{what}: no Retry-After in {answer}")
        return fields

    def expect_error(self, what: str, code: grpc.StatusCode, **extensions: str) -> None:
        try:
            answer = self.ask(extensions)
        except grpc.RpcError as error:
            if error.code() != code:
                raise Failure(f"{what}: {error}") from error
        else:
            raise Failure(f"{what} was answered: {answer}")


def fields_of(options: Any) -> dict[str, str]:
    return {option.header.key.lower(): option.header.value for option in options}


def denials(check: Filter, log: "Log") -> None:
    """Checks that limits and bulkheads refuse with a retry time, and that errors reach the caller or Envoy."""
    exhausted, invalid = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT
    told = check.expect_pass("a call within a limit", service="narrow")
    if told["ratelimit-policy"] != '"1h";q=2;w=3600' or not told["ratelimit"].startswith('"1h";r=1;'):
        raise Failure(f"a call within a limit gets {told}")
    log.report(entry(check.permit("narrow")))
    for outcome in (UNREPORTED, REPORTED):
        told = check.expect_denial("a limit that is used up", exhausted, 429, service="narrow", **outcome)
        if not HOUR - 60 <= int(told["retry-after"]) <= HOUR + 1:
            raise Failure(f"at a limit of an hour a caller gets {told}")
    check.expect_pass("a subject", {"x-user": "ann"}, service="personal", subject_header="X-User", cost="2")
    check.expect_denial("a subject's limit", exhausted, 429, service="personal", subject="ann")
    check.expect_pass("a subject without the field", service="personal", subject_header="x-user", subject="bob")
    check.expect_denial("no subject where one is required", invalid, 400, service="personal")
    check.expect_denial("no name for a subject", invalid, 400, service="personal", subject="a b\n")
    for kind in (IGNORED[0], FAILED[0], GOOD[0]):
        permit = check.permit("single")
        check.expect_denial("no place", exhausted, 503, service="single", **REPORTED)
        # The slot is free again, whatever the call's outcome.
        log.report(entry(permit, **kind))
    fields = {f"x-{number}": "a" for number in range(1001)}
    answer = check.ask({"service": "narrow"}, fields)
    if answer.denied_response.status.code != 400:
        raise Failure(f"a request with too many fields: {answer}")
    check.expect_error("unknown extensions", invalid, service="narrow", **fields)
    check.expect_error("no service", invalid, subject="ann")
    check.expect_error("an invalid outcome", invalid, service="narrow", outcome="guessed")
    check.expect_error("a cost of zero", invalid, service="narrow", cost="0")
    check.expect_error("an unknown service", grpc.StatusCode.NOT_FOUND, service="nowhere")


def entry(
    permit: Any,
    status: int = 200,
    flag: str = "",
    asked: bool = True,
    took: tuple[int, int] | None = None,
    headers: dict[str, str] | None = None,
    trailers: dict[str, str] | None = None,
) -> accesslog_pb2.HTTPAccessLogEntry:
    """Returns Envoy's log entry of a call. `asked` says whether it called an upstream; times are in milliseconds."""
    logged = accesslog_pb2.HTTPAccessLogEntry()
    common, response = logged.common_properties, logged.response
    if permit:
        common.metadata.filter_metadata["envoy.filters.http.ext_authz"].CopyFrom(permit)
        # Another filter's data, nested as deeply as tokens may be.
        common.metadata.filter_metadata["envoy.filters.http.jwt_authn"].update(deep(NESTED))
    if flag:
        setattr(common.response_flags, flag, True)
    if asked:
        common.upstream_remote_address.socket_address.address = "127.0.0.1"
    if took:
        common.time_to_last_upstream_tx_byte.FromMilliseconds(took[0])
        common.time_to_first_upstream_rx_byte.FromMilliseconds(took[1])
    response.response_code.value = status
    response.response_headers.update(headers or {})
    response.response_trailers.update(trailers or {})
    return logged


def deep(levels: int) -> dict[str, Any]:
    return {"claim": deep(levels - 1) if levels else "value"}


#: Kinds of entries, by the outcome that the breaker receives.
IGNORED: list[dict[str, Any]] = [
    {"flag": "downstream_connection_termination"},
    {"flag": "downstream_remote_reset", "status": 500},
    {"flag": "upstream_overflow", "status": 503},
    {"asked": False},
    {"asked": False, "status": 503},
    # In the breaker's form.
    {"status": 505},
]
FAILED: list[dict[str, Any]] = [
    {"flag": "no_healthy_upstream", "status": 503, "asked": False},
    {"flag": "dns_resolution_failure", "status": 503, "asked": False},
    {"flag": "upstream_connection_failure", "status": 503, "asked": False},
    {"flag": "upstream_request_timeout", "status": 504},
    {"flag": "upstream_remote_reset"},
    {"flag": "upstream_connection_termination"},
    {"flag": "upstream_max_stream_duration_reached"},
    {"flag": "upstream_protocol_error"},
    *({"status": status} for status in (500, 503, 599)),
    *({"trailers": {"grpc-status": code}} for code in ("2", "4", "13", "14", "77")),
    {"headers": {"grpc-status": "14"}},
]
GOOD: list[dict[str, Any]] = [
    *({"status": status} for status in (200, 302, 404, 429)),
    *({"trailers": {"grpc-status": code}} for code in ("0", "5", "7", "8")),
]


class Log:
    """One stream of access logs."""

    def __init__(self, sidecar: Sidecar, channel: grpc.Channel) -> None:
        self.sidecar = sidecar
        self.entries: queue.Queue[list[accesslog_pb2.HTTPAccessLogEntry]] = queue.Queue()
        stub = als_pb2_grpc.AccessLogServiceStub(channel)
        self.call = stub.StreamAccessLogs.future(self.messages())

    def messages(self) -> Iterator[als_pb2.StreamAccessLogsMessage]:
        while entries := self.entries.get():
            message = als_pb2.StreamAccessLogsMessage()
            message.http_logs.log_entry.extend(entries)
            yield message

    def close(self) -> None:
        self.entries.put([])
        if error := self.call.exception(timeout=PATIENCE):
            raise Failure(f"the access log ended with {error}")

    def report(self, *entries: accesslog_pb2.HTTPAccessLogEntry, result: str = "reported") -> None:
        """Sends entries, and waits until they are counted as expected."""
        labels = "interlock_access_log_entries_total", f'result="{result}"'
        expected = self.sidecar.metric(*labels) + len(entries)
        self.entries.put(list(entries))
        self.sidecar.world.until(f"entries are {result}", lambda: self.sidecar.metric(*labels) == expected)

    def expect_outcomes(self, service: str, **expected: float) -> None:
        seen = {
            outcome: self.sidecar.metric("interlock_outcomes_total", f'service="{service}"', f'outcome="{outcome}"')
            for outcome in expected
        }
        if seen != expected:
            raise Failure(f"calls of {service} were counted as {seen}, not as {expected}")

    def expect_breaker(self, service: str, *expected: str) -> None:
        """Waits for the breaker's state and cause."""

        def seen() -> tuple[str, ...]:
            told = json.loads(self.sidecar.get(f"/v1/services/{service}")[1])
            return (told["state"], told["cause"])[: len(expected)]

        self.sidecar.world.until(f"the breaker of {service} is {' for '.join(expected)}", lambda: seen() == expected)


def logs(check: Filter, log: Log) -> None:
    """Checks that breakers receive the outcomes in Envoy's access log."""
    log.report(*(entry(check.permit("well"), **kind) for kind in IGNORED + GOOD))
    log.expect_outcomes("well", ok=len(GOOD), error=0, ignore=len(IGNORED))
    log.report(*(entry(check.permit("failing"), **kind) for kind in IGNORED + FAILED))
    log.expect_outcomes("failing", ok=0, error=len(FAILED), ignore=len(IGNORED))
    log.expect_breaker("failing", "open", "consecutive")
    for outcome in (UNREPORTED, REPORTED):
        check.expect_denial("an open breaker", grpc.StatusCode.UNAVAILABLE, 503, service="failing", **outcome)
    # From the last byte of the request to the first byte of the response.
    log.report(entry(check.permit("well"), took=(0, 99)), entry(check.permit("well"), took=(5000, 5099)))
    log.report(entry(check.permit("slow"), took=(1000, 1100)))
    log.expect_breaker("slow", "open", "slow")
    away = {"retry-after": "40"}
    log.report(entry(check.permit("well"), 404, headers=away))
    log.report(entry(check.permit("away"), 429, headers=away))
    log.expect_breaker("away", "open", "retry_after")
    told = check.expect_denial("an unreachable service", grpc.StatusCode.UNAVAILABLE, 503, service="away")
    if not 40 - PATIENCE <= int(told["retry-after"]) <= 44:
        raise Failure(f"a caller of a service that is unreachable for 40 s gets {told}")
    once = entry(check.permit("well"))
    log.report(once)
    log.report(once, result="late")
    log.report(entry(None), entry(None, 500), result="foreign")
    # None of these calls was a failure or slow.
    log.expect_breaker("well", "closed")
    log.sidecar.world.until("no permit is active", lambda: log.sidecar.metric("interlock_permits_active") == 0)
    others = len(GOOD) + len(IGNORED)
    print(f"envoy: {len(FAILED)} kinds of failures in the access log opened a breaker, {others} others left one closed")


def check_answers(sidecar: Sidecar) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{sidecar.grpc}") as channel:
        check, log = Filter(channel), Log(sidecar, channel)
        denials(check, log)
        logs(check, log)
        log.close()

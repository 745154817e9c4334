"""Checks breakers, bulkheads and quotas with a real Envoy, as in docs/envoy, and with gRPC's own client.

`make test-envoy` runs the first after the limits of `gateways.py`, and the second before them.
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
from servers import HTTP, REDIS, TIMEOUT, Connection, Failure, Servers, free_ports

TOUR = Path(__file__).resolve().parents[2] / "docs/envoy"
EDGE, GRPC, UPSTREAM = 10000, 7381, 8080


class Tour:
    """The sidecar and Envoy of the tour in docs/envoy, on this run's ports."""

    def __init__(self, servers: Servers, envoy: Path) -> None:
        self.servers = servers
        edge, grpc = free_ports(2)
        self.ports = servers.ports | {EDGE: edge, GRPC: grpc, UPSTREAM: servers.upstream.server_port}
        self.ports[6379] = servers.ports[REDIS]
        self.sidecar = servers.start(str(servers.binary), "serve", "--config", str(self.file("interlock.yaml")))
        servers.wait_until("the sidecar is ready", lambda: servers.readiness() == 200)
        self.envoys = [self.start_envoy(envoy, edge)]

    def start_envoy(self, envoy: Path, port: int) -> int:
        ports = self.ports | {EDGE: port}
        file = self.file("envoy.yaml", ports)
        self.servers.start(str(envoy), "-c", str(file), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
        self.servers.wait_until("Envoy answers", lambda: self.answers(port))
        return port

    def file(self, name: str, ports: dict[int, int] | None = None) -> Path:
        ports = ports or self.ports
        text = re.sub(
            rf"(?<!\d)({'|'.join(map(str, ports))})(?!\d)",
            lambda found: str(ports[int(found[1])]),
            (TOUR / name).read_text(),
        )
        file = self.servers.folder / f"{ports[EDGE]}-{name}"
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
        connection = http.client.HTTPConnection("127.0.0.1", port or self.envoys[0], timeout=TIMEOUT)
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body

    def sidecar_get(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.servers.ports[HTTP], timeout=TIMEOUT)
        connection.request("GET", path)
        body = connection.getresponse().read()
        connection.close()
        return body

    def breaker(self) -> str:
        return str(json.loads(self.sidecar_get("/v1/services/shop"))["state"])

    def metric(self, name: str) -> float:
        for line in self.sidecar_get("/metrics").decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return 0


def check_addresses(tour: Tour) -> None:
    """Checks that an address gets five requests a second, not counting those that a busy sidecar refuses."""
    for number in range(50):
        status, headers, _ = tour.ask(f"/search?q={number}")
        if status == 429 and headers.get("interlock-cause") == "limit":
            break
    else:
        raise Failure("fifty requests of one address were allowed")
    seen = headers["ratelimit"], headers["ratelimit-policy"]
    if number < 5 or not seen[0].startswith('"remote_address";r=0') or seen[1] != '"remote_address";q=5;w=1':
        raise Failure(f"request {number + 1} of one address was refused with {seen}")


def check_breaker(tour: Tour) -> None:
    """Checks that failures in Envoy's access log open the breaker, and that a trial through Envoy closes it."""
    servers = tour.servers
    reported = 'interlock_access_log_entries_total{result="reported"}'
    if [tour.ask("/shop")[0] for _ in range(10)] != [200] * 10:
        raise Failure("a healthy service is not reached")
    servers.wait_until("Envoy has reported ten calls", lambda: tour.metric(reported) == 10)
    servers.set_state("upstream", "down")
    servers.wait_until("the breaker is open", lambda: tour.ask("/shop") and tour.breaker() == "open")
    status, headers, body = tour.ask("/shop")
    problem = json.loads(body)
    if (status, headers["content-type"], problem["code"]) != (503, "application/problem+json", "open"):
        raise Failure(f"an open breaker responds with {status} {headers} {body!r}")
    if not 1 <= int(headers["retry-after"]) <= 10:
        raise Failure(f"an open breaker has a Retry-After of {headers['retry-after']} s")
    if tour.ask("/checked")[0] != 503:
        raise Failure("an open breaker allows a call without outcomes")
    servers.set_state("upstream", "up")
    servers.wait_until("the breaker is closed", lambda: tour.ask("/shop") and tour.breaker() == "closed")
    if tour.ask("/shop")[0] != 200:
        raise Failure("a closed breaker refuses a call")
    late = tour.metric('interlock_access_log_entries_total{result="late"}')
    count = tour.metric(reported)
    print(f"envoy: {count:.0f} outcomes from the access log opened and closed the breaker, {late:.0f} of them late")
    servers.wait_until("no permit is active", lambda: tour.metric("interlock_permits_active") == 0)


def check_quotas(tour: Tour, envoy: Path) -> None:
    """Checks that two Envoys divide ten requests a second. The first has them all until its assignment expires."""
    tour.envoys.append(tour.start_envoy(envoy, free_ports(1)[0]))
    passed: dict[int, list[float]] = {port: [] for port in tour.envoys}
    began = time.monotonic()
    is_over = threading.Event()

    def load(port: int) -> None:
        while not is_over.is_set():
            status = tour.ask("/", {"x-tenant": "acme"}, port)[0]
            if status == 200:
                passed[port].append(time.monotonic())
            elif status != 429:
                raise Failure(f"a quota responds with {status}")
            time.sleep(0.02)

    threads = [threading.Thread(target=load, args=[port]) for port in tour.envoys]
    for thread in threads:
        thread.start()
    maximum = 0
    redis = Connection(tour.servers.ports[REDIS])

    def both_pass() -> bool:
        """Returns whether each Envoy allowed four requests in each of the last two seconds. Records assignments."""
        nonlocal maximum
        assignments = redis.call("HVALS", "interlock:quota:{quota}:plan=free,tenant=acme:1s")
        assert isinstance(assignments, list)
        now = redis_milliseconds(redis)
        maximum = max(maximum, sum(active_assignment(str(assignment), now) for assignment in assignments))
        last = time.monotonic()
        return all(
            sum(1 for at in times if last - second - 1 < at <= last - second) >= 4
            for times in passed.values()
            for second in (0, 1)
        )

    try:
        tour.servers.wait_until("both Envoys have part of the quota", both_pass, 60)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    elapsed = time.monotonic() - began
    total = sum(len(times) for times in passed.values())
    print(f"envoy: two Envoys passed {total} requests in {elapsed:.0f} s of a quota of 10/s, maximum {maximum} each")
    # Full buckets are extra: ten for the first Envoy, and its portion for the second.
    if maximum > 10 or total > 10 * elapsed + 20 or total < 5 * elapsed:
        raise Failure(f"a quota of 10/s assigned {maximum}, and {total} requests passed in {elapsed:.1f} s")


def active_assignment(assignment: str, now: int) -> int:
    """Returns the effective assignment: the current one, or a larger previous one that has not expired."""
    current, expiry, previous, previous_expiry, _ = map(int, assignment.split())
    return max(current if expiry > now else 0, previous if previous_expiry > now else 0)


def redis_milliseconds(redis: Connection) -> int:
    answer = redis.call("TIME")
    assert isinstance(answer, list)
    return int(answer[0]) * 1000 + int(answer[1]) // 1000


def check_guards(servers: Servers, envoy: Path) -> None:
    tour = Tour(servers, envoy)
    check_addresses(tour)
    check_breaker(tour)
    check_quotas(tour, envoy)


# ---- with gRPC's own client

#: Whether Envoy's access log reports the outcome of a call.
WITHOUT_REPORT: dict[str, str] = {}
WITH_REPORT = {"outcome": "access_log"}
#: The nesting depth of another filter's data in an access log entry.
NESTED = 20


class AuthorizationClient:
    """Requests permission for a call, like Envoy's filter."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.stub = external_auth_pb2_grpc.AuthorizationStub(channel)

    def ask(self, extensions: dict[str, str], headers: dict[str, str] | None = None) -> external_auth_pb2.CheckResponse:
        request = external_auth_pb2.CheckRequest()
        request.attributes.context_extensions.update(extensions)
        request.attributes.request.http.headers.update(headers or {})
        return self.stub.Check(request, timeout=TIMEOUT)

    def expect_pass(self, case: str, headers: dict[str, str] | None = None, **extensions: str) -> dict[str, str]:
        """Returns the fields that Envoy adds to the service's response."""
        answer = self.ask(extensions, headers)
        if answer.status.code or not answer.HasField("ok_response"):
            raise Failure(f"{case}: {answer}")
        return fields_of(answer.ok_response.response_headers_to_add)

    def permit(self, service: str) -> Any:
        """Returns a permit's metadata in Envoy's form."""
        answer = self.ask({"service": service, **WITH_REPORT})
        metadata = answer.dynamic_metadata
        if not answer.HasField("ok_response") or set(metadata.fields) != {"interlock.permit", "interlock.service"}:
            raise Failure(f"expected a permit for {service}, got {answer}")
        return metadata

    def expect_denial(self, case: str, code: grpc.StatusCode, status: int, **extensions: str) -> dict[str, str]:
        """Checks that Envoy's caller gets this status with a problem document. Returns its fields."""
        answer = self.ask(extensions)
        denial = answer.denied_response
        fields = fields_of(denial.headers)
        seen = answer.status.code, denial.status.code, fields.get("content-type")
        if seen != (code.value[0], status, "application/problem+json") or json.loads(denial.body)["status"] != status:
            raise Failure(f"{case}: {answer}")
        if status != 400 and not fields.get("retry-after", "").isdigit():
            raise Failure(f"{case}: no Retry-After in {answer}")
        return fields

    def expect_error(self, case: str, code: grpc.StatusCode, **extensions: str) -> None:
        try:
            answer = self.ask(extensions)
        except grpc.RpcError as error:
            if error.code() != code:
                raise Failure(f"{case}: {error}") from error
        else:
            raise Failure(f"{case} was answered: {answer}")


def fields_of(options: Any) -> dict[str, str]:
    return {option.header.key.lower(): option.header.value for option in options}


def check_denials(check: AuthorizationClient, log: "AccessLog") -> None:
    """Checks that limits and bulkheads refuse with a retry time, and that errors reach the caller or Envoy."""
    exhausted, invalid = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT
    fields = check.expect_pass("a call within a limit", service="narrow")
    if fields["ratelimit-policy"] != '"1h";q=2;w=3600' or not fields["ratelimit"].startswith('"1h";r=1;'):
        raise Failure(f"a call within a limit gets {fields}")
    log.report(entry(check.permit("narrow")))
    for outcome in (WITHOUT_REPORT, WITH_REPORT):
        fields = check.expect_denial("a limit that is used up", exhausted, 429, service="narrow", **outcome)
        if not HOUR - 60 <= int(fields["retry-after"]) <= HOUR + 1:
            raise Failure(f"at a limit of an hour a caller gets {fields}")
    check.expect_pass("a subject", {"x-user": "ann"}, service="personal", subject_header="X-User", cost="2")
    check.expect_denial("a subject's limit", exhausted, 429, service="personal", subject="ann")
    check.expect_pass("a subject without the field", service="personal", subject_header="x-user", subject="bob")
    check.expect_denial("no subject where one is required", invalid, 400, service="personal")
    check.expect_denial("no name for a subject", invalid, 400, service="personal", subject="a b\n")
    for kind in (IGNORED[0], FAILED[0], GOOD[0]):
        permit = check.permit("single")
        check.expect_denial("no free slot", exhausted, 503, service="single", **WITH_REPORT)
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
    called_upstream: bool = True,
    timing: tuple[int, int] | None = None,
    headers: dict[str, str] | None = None,
    trailers: dict[str, str] | None = None,
) -> accesslog_pb2.HTTPAccessLogEntry:
    """Returns Envoy's log entry of a call. `timing` is in milliseconds."""
    logged = accesslog_pb2.HTTPAccessLogEntry()
    common, response = logged.common_properties, logged.response
    if permit:
        common.metadata.filter_metadata["envoy.filters.http.ext_authz"].CopyFrom(permit)
        # Another filter's data, nested as deeply as a token may be.
        common.metadata.filter_metadata["envoy.filters.http.jwt_authn"].update(nested(NESTED))
    if flag:
        setattr(common.response_flags, flag, True)
    if called_upstream:
        common.upstream_remote_address.socket_address.address = "127.0.0.1"
    if timing:
        common.time_to_last_upstream_tx_byte.FromMilliseconds(timing[0])
        common.time_to_first_upstream_rx_byte.FromMilliseconds(timing[1])
    response.response_code.value = status
    response.response_headers.update(headers or {})
    response.response_trailers.update(trailers or {})
    return logged


def nested(levels: int) -> dict[str, Any]:
    return {"claim": nested(levels - 1) if levels else "value"}


#: Kinds of entries, by the outcome that the breaker receives.
IGNORED: list[dict[str, Any]] = [
    {"flag": "downstream_connection_termination"},
    {"flag": "downstream_remote_reset", "status": 500},
    {"flag": "upstream_overflow", "status": 503},
    {"called_upstream": False},
    {"called_upstream": False, "status": 503},
    # `ignore` of the breaker.
    {"status": 505},
]
FAILED: list[dict[str, Any]] = [
    {"flag": "no_healthy_upstream", "status": 503, "called_upstream": False},
    {"flag": "dns_resolution_failure", "status": 503, "called_upstream": False},
    {"flag": "upstream_connection_failure", "status": 503, "called_upstream": False},
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


class AccessLog:
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
        if error := self.call.exception(timeout=TIMEOUT):
            raise Failure(f"the access log ended with {error}")

    def report(self, *entries: accesslog_pb2.HTTPAccessLogEntry, result: str = "reported") -> None:
        """Sends entries, and waits until they are counted as expected."""
        labels = "interlock_access_log_entries_total", f'result="{result}"'
        expected = self.sidecar.metric(*labels) + len(entries)
        self.entries.put(list(entries))
        self.sidecar.servers.wait_until(f"entries are {result}", lambda: self.sidecar.metric(*labels) == expected)

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
            status = json.loads(self.sidecar.get(f"/v1/services/{service}")[1])
            return (status["state"], status["cause"])[: len(expected)]

        self.sidecar.servers.wait_until(
            f"the breaker of {service} is {' for '.join(expected)}", lambda: seen() == expected
        )


def check_outcomes(check: AuthorizationClient, log: AccessLog) -> None:
    """Checks that breakers receive the outcomes in Envoy's access log."""
    log.report(*(entry(check.permit("well"), **kind) for kind in IGNORED + GOOD))
    log.expect_outcomes("well", ok=len(GOOD), error=0, ignore=len(IGNORED))
    log.report(*(entry(check.permit("failing"), **kind) for kind in IGNORED + FAILED))
    log.expect_outcomes("failing", ok=0, error=len(FAILED), ignore=len(IGNORED))
    log.expect_breaker("failing", "open", "consecutive")
    for outcome in (WITHOUT_REPORT, WITH_REPORT):
        check.expect_denial("an open breaker", grpc.StatusCode.UNAVAILABLE, 503, service="failing", **outcome)
    # From the last byte of the request to the first byte of the response.
    log.report(entry(check.permit("well"), timing=(0, 99)), entry(check.permit("well"), timing=(5000, 5099)))
    log.report(entry(check.permit("slow"), timing=(1000, 1100)))
    log.expect_breaker("slow", "open", "slow")
    retry_after = {"retry-after": "40"}
    log.report(entry(check.permit("well"), 404, headers=retry_after))
    log.report(entry(check.permit("unavailable"), 429, headers=retry_after))
    log.expect_breaker("unavailable", "open", "retry_after")
    fields = check.expect_denial("an unreachable service", grpc.StatusCode.UNAVAILABLE, 503, service="unavailable")
    if not 40 - TIMEOUT <= int(fields["retry-after"]) <= 44:
        raise Failure(f"a caller of a service that is unreachable for 40 s gets {fields}")
    once = entry(check.permit("well"))
    log.report(once)
    log.report(once, result="late")
    log.report(entry(None), entry(None, 500), result="foreign")
    # None of these calls was a failure or slow.
    log.expect_breaker("well", "closed")
    log.sidecar.servers.wait_until("no permit is active", lambda: log.sidecar.metric("interlock_permits_active") == 0)
    others = len(GOOD) + len(IGNORED)
    print(f"envoy: {len(FAILED)} kinds of failures in the access log opened a breaker, {others} others left one closed")


def check_answers(sidecar: Sidecar) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{sidecar.grpc}") as channel:
        check, log = AuthorizationClient(channel), AccessLog(sidecar, channel)
        check_denials(check, log)
        check_outcomes(check, log)
        log.close()

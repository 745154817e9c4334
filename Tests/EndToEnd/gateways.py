"""Checks the gRPC API with real Envoys and gRPC's own client.

`make test-envoy` runs it. The project's declarations are a subset of the published ones. Two Envoys in front of two
sidecars on one Redis allow no more than a limit, by the Redis clock; shadow limits refuse nothing; callers receive the
remaining capacity; hits are refunded; and Envoy obeys its settings when Redis or a sidecar fails. `gateway_wire.py` and
`gateway_guards.py` use gRPC's own client for cases that an Envoy rarely reaches.
"""

import argparse
import http.client
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from string import Template

import grpc
from envoy.config.core.v3 import address_pb2, base_pb2
from envoy.data.accesslog.v3 import accesslog_pb2
from envoy.extensions.common.ratelimit.v3 import ratelimit_pb2
from envoy.service.accesslog.v3 import als_pb2
from envoy.service.auth.v3 import attribute_context_pb2, external_auth_pb2
from envoy.service.rate_limit_quota.v3 import rlqs_pb2
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from envoy.type.v3 import http_status_pb2, ratelimit_strategy_pb2, ratelimit_unit_pb2, token_bucket_pb2
from google.rpc import status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from declarations import compare_declarations
from gateway_client import message
from gateway_floods import LOG_FIELDS, Flooder, body
from gateway_guards import FAILED, check_answers, check_guards
from gateway_wire import (
    CONFIGURATION,
    QUOTA,
    Sidecar,
    check_quotas,
    check_shutdown,
    check_timeouts,
    check_wire,
    descriptor_of,
)
from servers import REDIS, TIMEOUT, Connection, Failure, Servers, free_ports

ROOT = Path(__file__).resolve().parents[2]
DECLARATIONS = ROOT / "Sources/EnvoyMessages"
PUBLISHED = [
    *(rls_pb2, ratelimit_pb2, ratelimit_unit_pb2, base_pb2, address_pb2, health_pb2, status_pb2),
    *(external_auth_pb2, attribute_context_pb2, http_status_pb2, als_pb2, accesslog_pb2),
    *(rlqs_pb2, ratelimit_strategy_pb2, token_bucket_pb2),
]
#: Fields of Envoy 1.38 that the package does not have yet. `refunds` makes Envoy send it.
UNPUBLISHED = frozenset({"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.is_negative_hits"})
SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
ACCESS_LOG = "envoy.service.accesslog.v3.AccessLogService"

DOMAIN = """
rls: {{ timeout: 8s }}
services:
  guarded: {{ limits: [{{ limit: 2, per: 1h }}], when_redis_is_down: deny }}
  unasked: {{ limits: [{{ limit: 2, per: 1h }}], when_redis_is_down: deny }}
rate_limits:
  edge:
    when_redis_is_down: {policy}
    descriptors:
      - {{ key: sliding, limit: 20, per: 1s, algorithm: sliding }}
      - {{ key: smooth, limit: 20, per: 1s, algorithm: gcra, burst: 5 }}
      - {{ key: fixed, limit: 20, per: 1s }}
      - {{ key: shadow, limit: 1, per: 1m, shadow: true }}
      - {{ key: path, value: "/api/*", limit: 3, per: 1h, name: api }}
      - {{ key: remote_address, limit: 100000, per: 1h }}
      - {{ key: refund, limit: 5, per: 1h }}
      - {{ key: away, limit: 100000, per: 1h }}
"""

ENVOY = Path(__file__).with_suffix(".yaml").read_text()


class Gateway(Sidecar):
    """An Envoy in front of its own sidecar."""

    def __init__(self, servers: Servers, envoy: Path, number: int, policy: str, deny: bool) -> None:
        super().__init__(servers, f"sidecar{number}", DOMAIN.format(policy=policy))
        self.until_ready(200)
        self.port, upstream = free_ports(2)
        file = servers.folder / f"envoy{number}.yaml"
        ports = {"port": str(self.port), "upstream": str(upstream), "grpc": str(self.grpc)}
        file.write_text(Template(ENVOY).substitute(ports, deny=str(deny).lower(), timeout="5s"))
        self.envoy = servers.start(
            str(envoy), "-c", str(file), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"
        )
        servers.wait_until("Envoy answers", lambda: self.status({}) != 0)

    def decisions(self, rule: str, decision: str) -> float:
        return self.metric("interlock_descriptor_decisions_total", f'rule="{rule}"', f'decision="{decision}"')

    def cancelled(self) -> float:
        return self.metric("interlock_grpc_requests_total", "ShouldRateLimit", 'status="cancelled"')

    def status(self, headers: dict[str, str], path: str = "/") -> int:
        try:
            return self.request(headers, path)[0]
        except OSError:
            return 0

    def request(self, headers: dict[str, str], path: str = "/") -> tuple[int, dict[str, str]]:
        return self.read(headers, path)[:2]

    def read(self, headers: dict[str, str], path: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def redis_time(redis: Connection) -> float:
    answer = redis.call("TIME")
    assert isinstance(answer, list)
    return int(answer[0]) + int(answer[1]) / 1e6


def maximum_in_any_window(times: list[tuple[float, float]], length: float) -> int:
    """Returns how many grants are known to fall within one window. Each was decided between the times of its pair."""
    return max(sum(1 for began, ended in times if start <= began and ended <= start + length) for start, _ in times)


class Check:
    def __init__(self, servers: Servers, gateways: list[Gateway]) -> None:
        self.servers = servers
        self.gateways = gateways

    def limits(self) -> None:
        """Sends requests of several callers to both Envoys for 2.5 seconds."""
        for header, maximum_allowed in (("x-limit", 20), ("x-smooth", 25), ("x-fixed", None)):
            passed: list[tuple[float, float]] = []
            refused = 0

            def load(gateway: Gateway, header: str = header, passed: list[tuple[float, float]] = passed) -> None:
                nonlocal refused
                redis = Connection(self.servers.ports[REDIS])
                end = time.monotonic() + 2.5
                while time.monotonic() < end:
                    began = redis_time(redis)
                    status = gateway.status({header: "load"})
                    if status == 200:
                        passed.append((began, redis_time(redis)))
                    elif status == 429:
                        refused += 1
                    else:
                        raise Failure(f"{header}: Envoy answered {status}")
                redis.close()

            threads = [threading.Thread(target=load, args=[gateway]) for gateway in self.gateways * 3]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            maximum = maximum_in_any_window(passed, 1.0)
            print(f"envoy: {header}: {len(passed)} passed, {refused} refused, at most {maximum} within a second")
            if not refused or len(passed) < 40 or maximum > (maximum_allowed or 40):
                raise Failure(f"{header}: {maximum} passed within one second, {len(passed)} in all, {refused} refused")

    def answers(self) -> None:
        gateway = self.gateways[0]
        for remaining in (2, 1, 0):
            status, headers = gateway.request({}, "/api/1")
            if (status, headers["x-ratelimit-remaining"], headers["ratelimit"].split(";")[:2]) != (
                200,
                str(remaining),
                ['"api"', f"r={remaining}"],
            ):
                raise Failure(f"the response is {status} {headers}")
        status, headers = gateway.request({}, "/api/1")
        if status != 429 or headers["ratelimit-policy"] != '"api";q=3;w=3600':
            raise Failure(f"the refusal is {status} {headers}")
        # Another value has its own count; the other gateway shares the first one.
        if gateway.status({}, "/api/2") != 200 or self.gateways[1].status({}, "/api/1") != 429:
            raise Failure("the sidecars do not share one count per path")

    def shadows(self) -> None:
        if any(self.gateways[0].status({"x-shadow": "on"}) != 200 for _ in range(5)):
            raise Failure("a shadow limit refused a request")
        counts = [self.gateways[0].decisions("shadow", decision) for decision in ("ok", "shadow", "over_limit")]
        if counts != [1, 4, 0]:
            raise Failure(f"five requests to a shadow limit of 1 were counted as {counts}")

    def guarded(self) -> None:
        """Checks that a service's refusal reaches Envoy's caller, and that an error reaches Envoy."""
        if [gateway.status({}, "/guarded") for gateway in self.gateways] != [200, 200]:
            raise Failure("calls within the limit of a service do not reach it")
        for gateway in self.gateways:
            status, headers, body = gateway.read({}, "/guarded")
            problem = json.loads(body)
            seen = status, headers["content-type"], problem["code"], problem["limit"]
            if seen != (429, "application/problem+json", "limited", 2):
                raise Failure(f"beyond the limit of a service Envoy responds with {status} {headers} {body!r}")
            if not 0 < int(headers["retry-after"]) <= 3601:
                raise Failure(f"at a limit of an hour a caller gets a Retry-After of {headers['retry-after']} s")
            if (status := gateway.status({}, "/nowhere")) != 502:
                raise Failure(f"an unknown service, for which the filter sets 502, gets {status}")

    def refunds(self) -> None:
        gateway = self.gateways[0]
        taken = [gateway.status({"x-take": "a"}) for _ in range(6)]
        if taken != [200] * 5 + [429]:
            raise Failure(f"a limit of 5 returned {taken}")
        gateway.request({"x-refund": "a"})
        taken = [gateway.status({"x-take": "a"}) for _ in range(3)]
        if taken != [200, 200, 429]:
            raise Failure(f"after a refund of two hits it returned {taken}")

    def cancelled_calls(self) -> None:
        """Checks that the sidecar discards expired and cancelled calls."""
        assert self.servers.redis
        gateway = self.gateways[0]
        before = gateway.cancelled()
        request = rls_pb2.RateLimitRequest(domain="edge", descriptors=[descriptor_of("away", "given up")])
        with grpc.insecure_channel(f"127.0.0.1:{gateway.grpc}") as channel:
            stub = rls_pb2_grpc.RateLimitServiceStub(channel)
            stub.ShouldRateLimit(request, timeout=TIMEOUT)
            self.servers.redis.send_signal(signal.SIGSTOP)
            try:
                calls = [stub.ShouldRateLimit.future(request, timeout=0.5), stub.ShouldRateLimit.future(request)]
                if calls[0].code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise Failure(f"a call whose deadline had passed ended with {calls[0].code()}")
                calls[1].cancel()
                self.servers.wait_until(
                    "the sidecar has discarded both calls", lambda: gateway.cancelled() == before + 2
                )
            finally:
                self.servers.redis.send_signal(signal.SIGCONT)
            stub.ShouldRateLimit(request, timeout=TIMEOUT)
        for gateway in self.gateways:
            gateway.until_ready(200)

    def redis_outage(self) -> None:
        """Checks that one sidecar allows and the other denies without Redis, and that health watches report it."""
        assert self.servers.redis
        with grpc.insecure_channel(f"127.0.0.1:{self.gateways[0].grpc}") as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=4 * TIMEOUT)
            healthy, unhealthy = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
            if next(watch).status != healthy:
                raise Failure("a watch does not start with the status")
            self.servers.stop(self.servers.redis)
            self.without_redis()
            if next(watch).status != unhealthy:
                raise Failure("a health watch does not report the outage of Redis")
            self.servers.start_redis()
            if next(watch).status != healthy:
                raise Failure("a health watch does not report the return of Redis")
        for gateway in self.gateways:
            gateway.until_ready(200)

    def without_redis(self) -> None:
        for gateway, expected in zip(self.gateways, (200, 429), strict=True):
            gateway.until_ready(503)
            durations = []
            for _ in range(20):
                began = time.monotonic()
                status = gateway.status({"x-away": "a"})
                durations.append(time.monotonic() - began)
                if status != expected:
                    raise Failure(f"without Redis Envoy returned {status}, not {expected}")
            median = sorted(durations)[10]
            print(f"envoy: without Redis: {expected}, {median * 1000:.1f} ms")
            if median > 0.2:
                raise Failure(f"without Redis a response took {median:.2f} s")
        status, headers = self.gateways[1].request({"x-away": "a"})
        known = headers.get("ratelimit"), headers.get("x-ratelimit-remaining")
        if (status, headers.get("interlock-cause"), *known) != (429, "redis", None, None):
            raise Failure(f"a refusal without Redis has {headers}")
        # A known refusal applies without Redis, so the check uses a limit without refusals.
        if (status := self.gateways[0].status({}, "/unasked")) != 502:
            raise Failure(f"an unknown limit, for which the filter sets 502, gets {status}")

    def sidecar_outage(self) -> None:
        """Checks that Envoy obeys `failure_mode_deny` without a sidecar."""
        for gateway, expected in zip(self.gateways, (200, 500), strict=True):
            self.servers.stop(gateway.process, signal.SIGKILL)
            status = gateway.status({"x-away": "a"})
            if status != expected:
                raise Failure(f"without a sidecar Envoy returned {status}, not {expected}")


def check_health_and_errors(port: int) -> None:
    """Checks health and errors with gRPC's own client."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            if (
                health.Check(health_pb2.HealthCheckRequest(service=service)).status
                != health_pb2.HealthCheckResponse.SERVING
            ):
                raise Failure(f"the service {service!r} is not healthy")
        watch = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        if next(watch).status != health_pb2.HealthCheckResponse.SERVING:
            raise Failure("a watch does not start with the status")
        watch.cancel()
        stub = rls_pb2_grpc.RateLimitServiceStub(channel)
        many = rls_pb2.RateLimitRequest(
            domain="edge", descriptors=[descriptor_of("sliding", str(n)) for n in range(10_000)]
        )
        large = rls_pb2.RateLimitRequest(domain="edge", descriptors=[descriptor_of("sliding", "x" * (2 << 20))])
        for name, request, code in (
            (
                "an empty domain",
                rls_pb2.RateLimitRequest(descriptors=[descriptor_of("sliding", "a")]),
                grpc.StatusCode.INVALID_ARGUMENT,
            ),
            ("no descriptor", rls_pb2.RateLimitRequest(domain="edge"), grpc.StatusCode.INVALID_ARGUMENT),
            ("10,000 descriptors", many, grpc.StatusCode.INVALID_ARGUMENT),
            ("a message too large", large, grpc.StatusCode.RESOURCE_EXHAUSTED),
        ):
            try:
                stub.ShouldRateLimit(request, timeout=TIMEOUT)
                raise Failure(f"{name} was answered")
            except grpc.RpcError as error:
                if error.code() != code:
                    raise Failure(f"{name}: {error}") from error
        malformed = channel.unary_unary(f"/{SERVICE}/ShouldRateLimit")
        unknown = channel.unary_unary(f"/{SERVICE}/Unknown")
        for call, code in ((malformed, grpc.StatusCode.INVALID_ARGUMENT), (unknown, grpc.StatusCode.UNIMPLEMENTED)):
            try:
                call(b"\xff\xff\xff", timeout=TIMEOUT)
                raise Failure("an invalid message was answered")
            except grpc.RpcError as error:
                if error.code() != code:
                    raise Failure(f"{error}") from error
        answer = stub.ShouldRateLimit(rls_pb2.RateLimitRequest(domain="nowhere", descriptors=[descriptor_of("a", "b")]))
        if answer.overall_code != rls_pb2.RateLimitResponse.OK:
            raise Failure("an unknown domain limits requests")


def with_pauses(messages: list[bytes], pause: float) -> Iterator[bytes]:
    for part in messages:
        yield part
        time.sleep(pause)


def check_empty_messages(port: int) -> None:
    """Checks that an endless call without messages ends in time, while its connection and a slower call continue."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        log = channel.stream_unary(f"/{ACCESS_LOG}/StreamAccessLogs")
        log(iter([b""] * 90), timeout=TIMEOUT)
        log(with_pauses([b""] * 1000, 0.004), timeout=TIMEOUT)
        try:
            log(iter([b""] * 20000), timeout=TIMEOUT)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
        else:
            raise Failure("20,000 empty messages were read")
    flooder = Flooder(port)
    empty_messages = message(b"") * 3000
    head = flooder.start_call(LOG_FIELDS)
    for _ in range(60):
        flooder.send(head + flooder.data(flooder.stream, empty_messages, 0))
        head = b""
    flooder.wait_until_finished()
    flooder.call(body())
    flooder.wait_until_finished()
    flooder.close()


def check_certificates(servers: Servers) -> None:
    """Checks that the listener accepts only client certificates of the configured authority."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=servers.folder, check=True, capture_output=True)

    new_key = ("req", "-newkey", "rsa:2048", "-nodes")
    for authority in ("ca", "other"):
        files = ("-keyout", f"{authority}.key", "-out", f"{authority}.pem")
        openssl(*new_key, "-x509", "-days", "2", "-subj", f"/CN={authority}", *files)
    (servers.folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name, authority in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
        openssl(*new_key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signer = ("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", *signer, "-out", f"{name}.pem")
    tls = ", tls: { certificate: server.pem, key: server.key, grpc_client_ca: ca.pem }"
    sidecar = Sidecar(servers, "certificates", "", tls)

    def read(name: str) -> bytes:
        return (servers.folder / name).read_bytes()

    for name in ("client", "stranger", ""):
        key_and_certificate = (read(f"{name}.key"), read(f"{name}.pem")) if name else (None, None)
        credentials = grpc.ssl_channel_credentials(read("ca.pem"), *key_and_certificate)
        with grpc.secure_channel(f"127.0.0.1:{sidecar.grpc}", credentials) as channel:
            try:
                health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(service=SERVICE), timeout=TIMEOUT
                )
            except grpc.RpcError as error:
                if name == "client" or error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise Failure(f"certificate {name or '(none)'}: {error}") from error
            else:
                if name != "client":
                    raise Failure(f"certificate {name or '(none)'} was accepted")
    servers.stop(sidecar.process)
    print("envoy: a missing certificate, or one of another authority, is refused")


def check_keys(servers: Servers) -> None:
    """Checks that the listener requires a key."""
    sidecar = Sidecar(servers, "keys", "auth: { keys: [ { name: edge, key_env: WEB_KEY, role: use } ] }\n")
    request = rls_pb2.RateLimitRequest(domain="edge", descriptors=[descriptor_of("a", "b")])
    with grpc.insecure_channel(f"127.0.0.1:{sidecar.grpc}") as channel:
        for key in ("a-key-for-web", "another", None):
            metadata = [("authorization", f"Bearer {key}")] if key else []
            try:
                rls_pb2_grpc.RateLimitServiceStub(channel).ShouldRateLimit(request, metadata=metadata, timeout=TIMEOUT)
                status = grpc.StatusCode.OK
            except grpc.RpcError as error:
                status = error.code()
            expected = grpc.StatusCode.OK if key == "a-key-for-web" else grpc.StatusCode.UNAUTHENTICATED
            if status != expected:
                raise Failure(f"with the key {key} a call ended with {status}")
    servers.stop(sidecar.process)


def check_wire_protocol(servers: Servers) -> Future[None]:
    """Starts slow checks in the background, and returns their future: Redis must not stop before they end."""

    def start(name: str, timeout: str) -> Sidecar:
        sidecar = Sidecar(servers, name, CONFIGURATION.format(timeout=timeout, failures=len(FAILED), quota=QUOTA))
        sidecar.until_ready(200)
        return sidecar

    short_timeout = start("hasty", "15ms")
    # A second sidecar would halve this one's local quota, so it starts later.
    check_timeouts(servers, short_timeout)
    long_timeout = start("patient", "8s")

    def divide() -> None:
        check_quotas(servers, [long_timeout, short_timeout])
        check_shutdown(short_timeout)

    end = in_background(divide)
    check_wire(long_timeout)
    check_answers(long_timeout)
    return end


def in_background(task: Callable[[], None]) -> Future[None]:
    """Runs the task in a daemon thread, which does not delay the exit if another check fails."""
    end: Future[None] = Future()

    def run() -> None:
        try:
            task()
        except Exception as error:
            end.set_exception(error)
        else:
            end.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    return end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the built interlock")
    arguments = parser.parse_args()
    envoy = Path(sys.executable).parent / "envoy"
    servers = Servers(arguments.binary.resolve(), Path(tempfile.mkdtemp(prefix="interlock-envoy-")))
    try:
        count = compare_declarations(DECLARATIONS, PUBLISHED, UNPUBLISHED)
        print(f"envoy: {count} fields match the declarations of Envoy and gRPC")
        divided = check_wire_protocol(servers)
        gateways = [Gateway(servers, envoy, 0, "allow", False), Gateway(servers, envoy, 1, "deny", True)]
        check_health_and_errors(gateways[0].grpc)
        check_empty_messages(gateways[0].grpc)
        check_certificates(servers)
        check_keys(servers)
        check = Check(servers, gateways)
        check.limits()
        check.answers()
        check.shadows()
        check.refunds()
        check.guarded()
        divided.result()
        check.cancelled_calls()
        check.redis_outage()
        check.sidecar_outage()
        check_guards(servers, envoy)
    except Failure as failure:
        sys.exit(f"envoy: {failure}")
    finally:
        servers.close()
    print("envoy: limits, responses, shadow limits, refunds and failures passed")


if __name__ == "__main__":
    main()

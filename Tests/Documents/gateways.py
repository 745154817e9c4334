"""Checks the gRPC API with real Envoys and gRPC's own client.

`make envoy` runs it. The project's declarations are a subset of the published ones. Two Envoys in front of two sidecars
on one Redis allow no more than a limit, by Redis' clock; shadow limits refuse nothing; callers learn what remains; hits
are refunded; and Envoy obeys its settings when Redis or a sidecar fails. `gateway_wire.py` and `gateway_guards.py` use
gRPC's own client for cases that an Envoy rarely reaches.
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
from gateway_wire import CONFIGURATION, QUOTA, Sidecar, check_wire, farewell, late, one, quotas
from servers import PATIENCE, REDIS, Connection, Failure, World, free_ports

ROOT = Path(__file__).resolve().parents[2]
DECLARATIONS = ROOT / "Sources/EnvoyMessages"
PUBLISHED = [
    *(rls_pb2, ratelimit_pb2, ratelimit_unit_pb2, base_pb2, address_pb2, health_pb2, status_pb2),
    *(external_auth_pb2, attribute_context_pb2, http_status_pb2, als_pb2, accesslog_pb2),
    *(rlqs_pb2, ratelimit_strategy_pb2, token_bucket_pb2),
]
#: Envoy 1.38 has it, but the package lacks it; `given_back` makes Envoy send it.
NEWER = frozenset({"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.is_negative_hits"})
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

    def __init__(self, world: World, envoy: Path, number: int, policy: str, deny: bool) -> None:
        super().__init__(world, f"sidecar{number}", DOMAIN.format(policy=policy))
        self.until_ready(200)
        self.port, upstream = free_ports(2)
        file = world.folder / f"envoy{number}.yaml"
        ports = {"port": str(self.port), "upstream": str(upstream), "grpc": str(self.grpc)}
        file.write_text(Template(ENVOY).substitute(ports, deny=str(deny).lower(), timeout="5s"))
        self.envoy = world.start(
            str(envoy), "-c", str(file), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"
        )
        world.until("Envoy answers", lambda: self.status({}) != 0)

    def decisions(self, rule: str, decision: str) -> float:
        return self.metric("interlock_descriptor_decisions_total", f'rule="{rule}"', f'decision="{decision}"')

    def cancelled(self) -> float:
        return self.metric("interlock_grpc_requests_total", "ShouldRateLimit", 'status="cancelled"')

    def status(self, headers: dict[str, str], path: str = "/") -> int:
        try:
            return self.ask(headers, path)[0]
        except OSError:
            return 0

    def ask(self, headers: dict[str, str], path: str = "/") -> tuple[int, dict[str, str]]:
        return self.read(headers, path)[:2]

    def read(self, headers: dict[str, str], path: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def redis_time(redis: Connection) -> float:
    answer = redis.call("TIME")
    assert isinstance(answer, list)
    return int(answer[0]) + int(answer[1]) / 1e6


def most_in_any_window(times: list[tuple[float, float]], length: float) -> int:
    """Returns how many grants certainly fall within one window. Each was decided between the two times of its pair."""
    return max(sum(1 for began, ended in times if start <= began and ended <= start + length) for start, _ in times)


class Check:
    def __init__(self, world: World, gateways: list[Gateway]) -> None:
        self.world = world
        self.gateways = gateways

    def limits(self) -> None:
        """Sends requests of several callers to both Envoys for at least two seconds."""
        for header, bound in (("x-limit", 20), ("x-smooth", 25), ("x-fixed", None)):
            passed: list[tuple[float, float]] = []
            refused = 0

            def load(gateway: Gateway, header: str = header, passed: list[tuple[float, float]] = passed) -> None:
                nonlocal refused
                redis = Connection(self.world.ports[REDIS])
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
            most = most_in_any_window(passed, 1.0)
            print(f"envoy: {header}: {len(passed)} passed, {refused} refused, at most {most} within a second")
            if not refused or len(passed) < 40 or most > (bound or 40):
                raise Failure(f"{header}: {most} passed within one second, {len(passed)} in all, {refused} refused")

    def answers(self) -> None:
        gateway = self.gateways[0]
        for left in (2, 1, 0):
            status, headers = gateway.ask({}, "/api/1")
            if (status, headers["x-ratelimit-remaining"], headers["ratelimit"].split(";")[:2]) != (
                200,
                str(left),
                ['"api"', f"r={left}"],
            ):
                raise Failure(f"the response is {status} {headers}")
        status, headers = gateway.ask({}, "/api/1")
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

    def given_back(self) -> None:
        gateway = self.gateways[0]
        taken = [gateway.status({"x-take": "a"}) for _ in range(6)]
        if taken != [200] * 5 + [429]:
            raise Failure(f"a limit of 5 returned {taken}")
        gateway.ask({"x-refund": "a"})
        taken = [gateway.status({"x-take": "a"}) for _ in range(3)]
        if taken != [200, 200, 429]:
            raise Failure(f"after a refund of two hits it returned {taken}")

    def given_up(self) -> None:
        """Checks that expired and cancelled calls leave nothing behind."""
        assert self.world.redis
        gateway = self.gateways[0]
        before = gateway.cancelled()
        request = rls_pb2.RateLimitRequest(domain="edge", descriptors=[one("away", "given up")])
        with grpc.insecure_channel(f"127.0.0.1:{gateway.grpc}") as channel:
            stub = rls_pb2_grpc.RateLimitServiceStub(channel)
            stub.ShouldRateLimit(request, timeout=PATIENCE)
            self.world.redis.send_signal(signal.SIGSTOP)
            try:
                calls = [stub.ShouldRateLimit.future(request, timeout=0.5), stub.ShouldRateLimit.future(request)]
                if calls[0].code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise Failure(f"a call whose deadline had passed ended with {calls[0].code()}")
                calls[1].cancel()
                self.world.until("the sidecar has dropped both calls", lambda: gateway.cancelled() == before + 2)
            finally:
                self.world.redis.send_signal(signal.SIGCONT)
            stub.ShouldRateLimit(request, timeout=PATIENCE)
        for gateway in self.gateways:
            gateway.until_ready(200)

    def redis_goes(self) -> None:
        """Checks that one sidecar allows and the other denies without Redis, and that health watches report it."""
        assert self.world.redis
        with grpc.insecure_channel(f"127.0.0.1:{self.gateways[0].grpc}") as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=4 * PATIENCE)
            healthy, unhealthy = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
            if next(watch).status != healthy:
                raise Failure("a watch does not start with the status")
            self.world.stop(self.world.redis)
            self.without_redis()
            if next(watch).status != unhealthy:
                raise Failure("a health watch does not report the outage of Redis")
            self.world.start_redis()
            if next(watch).status != healthy:
                raise Failure("a health watch does not report the return of Redis")
        for gateway in self.gateways:
            gateway.until_ready(200)

    def without_redis(self) -> None:
        for gateway, expected in zip(self.gateways, (200, 429), strict=True):
            gateway.until_ready(503)
            took = []
            for _ in range(20):
                began = time.monotonic()
                status = gateway.status({"x-away": "a"})
                took.append(time.monotonic() - began)
                if status != expected:
                    raise Failure(f"without Redis Envoy returned {status}, not {expected}")
            half = sorted(took)[10]
            print(f"envoy: without Redis: {expected}, {half * 1000:.1f} ms")
            if half > 0.2:
                raise Failure(f"without Redis a response took {half:.2f} s")
        status, headers = self.gateways[1].ask({"x-away": "a"})
        known = headers.get("ratelimit"), headers.get("x-ratelimit-remaining")
        if (status, headers.get("interlock-cause"), *known) != (429, "redis", None, None):
            raise Failure(f"a refusal without Redis has {headers}")
        # A known refusal applies without Redis, so the check uses a limit without refusals.
        if (status := self.gateways[0].status({}, "/unasked")) != 502:
            raise Failure(f"an unknown limit, for which the filter sets 502, gets {status}")

    def sidecar_goes(self) -> None:
        """Checks that Envoy obeys `failure_mode_deny` without a sidecar."""
        for gateway, expected in zip(self.gateways, (200, 500), strict=True):
            self.world.stop(gateway.process, signal.SIGKILL)
            status = gateway.status({"x-away": "a"})
            if status != expected:
                raise Failure(f"without a sidecar Envoy returned {status}, not {expected}")


def client(port: int) -> None:
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
        many = rls_pb2.RateLimitRequest(domain="edge", descriptors=[one("sliding", str(n)) for n in range(10_000)])
        large = rls_pb2.RateLimitRequest(domain="edge", descriptors=[one("sliding", "x" * (2 << 20))])
        for name, request, code in (
            (
                "an empty domain",
                rls_pb2.RateLimitRequest(descriptors=[one("sliding", "a")]),
                grpc.StatusCode.INVALID_ARGUMENT,
            ),
            ("no descriptor", rls_pb2.RateLimitRequest(domain="edge"), grpc.StatusCode.INVALID_ARGUMENT),
            ("10,000 descriptors", many, grpc.StatusCode.INVALID_ARGUMENT),
            ("a message too large", large, grpc.StatusCode.RESOURCE_EXHAUSTED),
        ):
            try:
                stub.ShouldRateLimit(request, timeout=PATIENCE)
                raise Failure(f"{name} was answered")
            except grpc.RpcError as error:
                if error.code() != code:
                    raise Failure(f"{name}: {error}") from error
        malformed = channel.unary_unary(f"/{SERVICE}/ShouldRateLimit")
        unknown = channel.unary_unary(f"/{SERVICE}/Unknown")
        for call, code in ((malformed, grpc.StatusCode.INVALID_ARGUMENT), (unknown, grpc.StatusCode.UNIMPLEMENTED)):
            try:
                call(b"\xff\xff\xff", timeout=PATIENCE)
                raise Failure("an invalid message was answered")
            except grpc.RpcError as error:
                if error.code() != code:
                    raise Failure(f"{error}") from error
        answer = stub.ShouldRateLimit(rls_pb2.RateLimitRequest(domain="nowhere", descriptors=[one("a", "b")]))
        if answer.overall_code != rls_pb2.RateLimitResponse.OK:
            raise Failure("an unknown domain limits requests")


def slowly(messages: list[bytes], pause: float) -> Iterator[bytes]:
    for part in messages:
        yield part
        time.sleep(pause)


def silent_stream(port: int) -> None:
    """Checks that an endless call without messages ends in time, while its connection and a slower call continue."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        log = channel.stream_unary(f"/{ACCESS_LOG}/StreamAccessLogs")
        log(iter([b""] * 90), timeout=PATIENCE)
        log(slowly([b""] * 1000, 0.004), timeout=PATIENCE)
        try:
            log(iter([b""] * 20000), timeout=PATIENCE)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
        else:
            raise Failure("20,000 empty messages were read")
    flooder = Flooder(port)
    silence = message(b"") * 3000
    head = flooder.head(LOG_FIELDS)
    for _ in range(60):
        flooder.send(head + flooder.data(flooder.stream, silence, 0))
        head = b""
    flooder.until_over()
    flooder.call(body())
    flooder.until_over()
    flooder.close()


def certificates(world: World) -> None:
    """Checks that the listener accepts only client certificates of the right authority."""

    def make(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=world.folder, check=True, capture_output=True)

    new_key = ("req", "-newkey", "rsa:2048", "-nodes")
    for authority in ("ca", "other"):
        files = ("-keyout", f"{authority}.key", "-out", f"{authority}.pem")
        make(*new_key, "-x509", "-days", "2", "-subj", f"/CN={authority}", *files)
    (world.folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name, authority in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
        make(*new_key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signer = ("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-days", "2", "-extfile", "names")
        make("x509", "-req", "-in", f"{name}.csr", *signer, "-out", f"{name}.pem")
    tls = ", tls: { certificate: server.pem, key: server.key, grpc_client_ca: ca.pem }"
    sidecar = Sidecar(world, "certificates", "", tls)

    def read(name: str) -> bytes:
        return (world.folder / name).read_bytes()

    for name in ("client", "stranger", ""):
        own = (read(f"{name}.key"), read(f"{name}.pem")) if name else (None, None)
        credentials = grpc.ssl_channel_credentials(read("ca.pem"), *own)
        with grpc.secure_channel(f"127.0.0.1:{sidecar.grpc}", credentials) as channel:
            try:
                health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(service=SERVICE), timeout=PATIENCE
                )
            except grpc.RpcError as error:
                if name == "client" or error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise Failure(f"certificate {name or '(none)'}: {error}") from error
            else:
                if name != "client":
                    raise Failure(f"certificate {name or '(none)'} was accepted")
    world.stop(sidecar.process)
    print("envoy: a missing certificate, or one of another authority, is refused")


def keys(world: World) -> None:
    """Checks that the listener requires a key."""
    sidecar = Sidecar(world, "keys", "auth: { keys: [ { name: edge, key_env: WEB_KEY, role: use } ] }\n")
    request = rls_pb2.RateLimitRequest(domain="edge", descriptors=[one("a", "b")])
    with grpc.insecure_channel(f"127.0.0.1:{sidecar.grpc}") as channel:
        for key in ("a-key-for-web", "another", None):
            metadata = [("authorization", f"Bearer {key}")] if key else []
            try:
                rls_pb2_grpc.RateLimitServiceStub(channel).ShouldRateLimit(request, metadata=metadata, timeout=PATIENCE)
                status = grpc.StatusCode.OK
            except grpc.RpcError as error:
                status = error.code()
            expected = grpc.StatusCode.OK if key == "a-key-for-web" else grpc.StatusCode.UNAUTHENTICATED
            if status != expected:
                raise Failure(f"with the key {key} a call ended with {status}")
    world.stop(sidecar.process)


def wire(world: World) -> Future[None]:
    """Starts slow checks in the background, and returns their future: Redis must not stop before they end."""

    def start(name: str, timeout: str) -> Sidecar:
        opened = Sidecar(world, name, CONFIGURATION.format(timeout=timeout, failures=len(FAILED), quota=QUOTA))
        opened.until_ready(200)
        return opened

    hasty = start("hasty", "15ms")
    # Before a second sidecar starts, which would halve this one's local quota.
    late(world, hasty)
    patient = start("patient", "8s")

    def divide() -> None:
        quotas(world, [patient, hasty])
        farewell(hasty)

    end = beside(divide)
    check_wire(patient)
    check_answers(patient)
    return end


def beside(task: Callable[[], None]) -> Future[None]:
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
    world = World(arguments.binary.resolve(), Path(tempfile.mkdtemp(prefix="interlock-envoy-")))
    try:
        count = compare_declarations(DECLARATIONS, PUBLISHED, NEWER)
        print(f"envoy: {count} fields match the declarations of Envoy and gRPC")
        divided = wire(world)
        gateways = [Gateway(world, envoy, 0, "allow", False), Gateway(world, envoy, 1, "deny", True)]
        client(gateways[0].grpc)
        silent_stream(gateways[0].grpc)
        certificates(world)
        keys(world)
        check = Check(world, gateways)
        check.limits()
        check.answers()
        check.shadows()
        check.given_back()
        check.guarded()
        divided.result()
        check.given_up()
        check.redis_goes()
        check.sidecar_goes()
        check_guards(world, envoy)
    except Failure as failure:
        sys.exit(f"envoy: {failure}")
    finally:
        world.close()
    print("envoy: limits, responses, shadow limits, refunds and failures passed")


if __name__ == "__main__":
    main()

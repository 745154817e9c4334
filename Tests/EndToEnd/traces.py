"""Checks the sidecar's traces with an OTLP collector that decodes them with OpenTelemetry's own declarations.

`make test-traces` runs it. The project's declarations are a subset of the published ones, with the same names, numbers
and types. A proxied call that waited, was retried and succeeded has spans with the right parents and order. The
upstream gets its trace context. Untraced callers stay untraced, and an unreachable or busy collector delays nothing.
"""

import argparse
import http.server
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from declarations import compare_declarations
from servers import HTTP, RESP, TIMEOUT, Connection, Failure, Servers

ROOT = Path(__file__).resolve().parents[2]
DECLARATIONS = ROOT / "Sources/OTLPMessages"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
STATE = "vendor=value,other=1"
#: The seconds for which spans are collected before they are exported.
EXPORT_PERIOD = 5.0
#: The name of a call's span in the proxy.
CALL = "GET /proxy/{service}/{path}"
PUBLISHED = [trace_service_pb2, common_pb2, resource_pb2, trace_pb2]


class Collector(http.server.ThreadingHTTPServer):
    """Accepts spans, or responds with an error."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), CollectorHandler)
        self.spans: list[trace_pb2.Span] = []
        self.resources: list[dict[str, str]] = []
        #: The statuses of the next responses, before it accepts spans again.
        self.statuses: list[int] = []
        #: The seconds that each response takes.
        self.pause = 0.0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class CollectorHandler(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.pause)
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status == 200 and (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf"):
            request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
            for group in request.resource_spans:
                self.server.resources.append(
                    {entry.key: entry.value.string_value for entry in group.resource.attributes}
                )
                for scope in group.scope_spans:
                    self.server.spans += scope.spans
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Upstream(http.server.ThreadingHTTPServer):
    """Responds with the given statuses, and records the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), UpstreamHandler)
        self.statuses: list[int] = []
        self.requests: list[dict[str, str]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class UpstreamHandler(http.server.BaseHTTPRequestHandler):
    server: Upstream
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.requests.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Check:
    def __init__(self, servers: Servers, collector: Collector, upstream: Upstream) -> None:
        self.servers = servers
        self.collector = collector
        self.upstream = upstream

    def start(self, sample: str, follow: bool = True, limit: int = 1000) -> None:
        configuration = self.servers.folder / "traces.yaml"
        configuration.write_text(f"""
tracing:
  endpoint: "http://127.0.0.1:{self.collector.server_port}"
  sample: {sample}
  follow_parents: {json.dumps(follow)}
services:
  search:
    url: "http://127.0.0.1:{self.upstream.server_port}"
    retries: {{ attempts: 2 }}
    limits: [ {{ limit: {limit}, per: 700ms }} ]
    on_limit: {{ action: wait, patience: 5s }}
""")
        self.servers.start_sidecar(configuration)

    def call(self, path: str = "/proxy/search/item", **fields: str) -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{self.servers.ports[HTTP]}{path}", headers=fields)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def exhaust_limit(self) -> None:
        words = ["redis-cli", "-p", str(self.servers.ports[RESP]), "LIMIT.TAKE", "search", "COST", "2", "WAIT", "5000"]
        words += ["TRACEPARENT", f"{PARENT}-00"]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)

    def spans(self, count: int) -> list[trace_pb2.Span]:
        self.servers.wait_until(f"{count} spans have arrived", lambda: len(self.collector.spans) >= count)
        # Unexpected spans would arrive with the next export.
        time.sleep(EXPORT_PERIOD + 0.5)
        spans, self.collector.spans = self.collector.spans, []
        if len(spans) != count:
            raise Failure(f"{[span.name for span in spans]} arrived instead of {count} spans")
        return spans

    def complete_call(self) -> None:
        """Checks a call that waits for its turn, fails once at the upstream, and succeeds."""
        self.exhaust_limit()
        self.upstream.statuses = [503]
        if self.call(traceparent=f"{PARENT}-01", tracestate=STATE) != 200:
            raise Failure("the call did not succeed")
        spans = self.spans(8)
        names = sorted(span.name for span in spans)
        expected = [CALL, "permit", "permit", "retry", "take", "take", "upstream", "wait"]
        expect(names == expected, f"the spans are {names}")
        by_name = {span.name: span for span in spans}
        call = by_name[CALL]
        trace, parent = PARENT[3:35], PARENT[36:]
        expect(all(span.trace_id.hex() == trace for span in spans), "a span belongs to another trace")
        expect(call.parent_span_id.hex() == parent, "the call's parent is not its caller")
        expect(call.trace_state == STATE, "tracestate was not kept")
        expect(call.kind == trace_pb2.Span.SPAN_KIND_SERVER, "the call's span is not of kind server")
        permits = sorted((span for span in spans if span.name == "permit"), key=start)
        for span in [*permits, by_name["upstream"], by_name["retry"]]:
            expect(span.parent_span_id == call.span_id, f"{span.name} is not a child of the call")
            expect(within(span, call), f"{span.name} is not within the call")
        takes = sorted((span for span in spans if span.name == "take"), key=start)
        for span, permit in [(by_name["wait"], permits[0]), *zip(takes, permits, strict=True)]:
            expect(span.parent_span_id == permit.span_id, f"{span.name} is not a child of its permit")
            expect(within(span, permit), f"{span.name} is not within its permit")
        expect(milliseconds(by_name["wait"]) > 100, f"the wait took {milliseconds(by_name['wait']):.1f} ms")
        expect(
            by_name["wait"].end_time_unix_nano <= takes[0].start_time_unix_nano,
            "it was admitted before the wait ended",
        )
        order = [permits[0], by_name["upstream"], permits[1], by_name["retry"]]
        expect(order == sorted(order, key=start), "the steps are out of order")
        expect(attributes(permits[0])["interlock.decision"] == "granted", "the permit's decision is missing")
        expect(
            attributes(by_name["upstream"])["http.response.status_code"] == 503,
            "the first try's status is missing",
        )
        expect(
            by_name["upstream"].status.code == trace_pb2.Status.STATUS_CODE_ERROR,
            "the first try is not marked as failed",
        )
        retry = attributes(by_name["retry"])
        expect(retry["http.response.status_code"] == 200, "the second try's status is missing")
        expect(retry["http.request.resend_count"] == 1, "the second try is not marked as a retry")
        expect(attributes(call)["http.response.status_code"] == 200, "the call's status is missing")
        expect(call.status.code == trace_pb2.Status.STATUS_CODE_UNSET, "the call is marked as failed")
        for requests, span in zip(self.upstream.requests, [by_name["upstream"], by_name["retry"]], strict=True):
            expect(requests["traceparent"] == f"00-{trace}-{span.span_id.hex()}-01", "the upstream got another span")
            expect(requests["tracestate"] == STATE, "the upstream got another tracestate")
        resource = self.collector.resources[0]
        expect(resource["service.name"] == "interlock", f"the resource is {resource}")
        print(
            f"traces: a call that waited {milliseconds(by_name['wait']):.0f} ms and was retried "
            f"has its {len(spans)} spans"
        )

    def refused(self) -> None:
        """Checks a call that an open breaker refuses."""
        words = ["redis-cli", "-p", str(self.servers.ports[RESP]), "BREAKER.FORCE", "search"]
        subprocess.run([*words, "OPEN"], stdout=subprocess.DEVNULL, check=True)
        expect(self.call(traceparent=f"{PARENT}-01") == 503, "an open breaker lets a call through")
        subprocess.run([*words, "AUTO"], stdout=subprocess.DEVNULL, check=True)
        spans = {span.name: span for span in self.spans(2)}
        expect(attributes(spans["permit"])["interlock.decision"] == "open", "the refusal is missing")
        expect(spans[CALL].status.code == trace_pb2.Status.STATUS_CODE_ERROR, "it is marked as successful")

    def api_calls(self) -> None:
        """Checks calls to the APIs."""
        resp = Connection(self.servers.ports[RESP])
        for command in (
            "LOCK.ACQUIRE orders 30000",
            "LOCK.ACQUIRE orders 30000",
            "LIMIT.TAKE search",
            "PERMIT.ACQUIRE search",
        ):
            resp.send(*f"{command} TRACEPARENT {PARENT}-01".split())
            resp.answer()
        by_name = self.by_name(9)
        roots = ["LIMIT.TAKE", "LOCK.ACQUIRE", "LOCK.ACQUIRE", "PERMIT.ACQUIRE"]
        expect(
            sorted(name for name in by_name if "." in name) == sorted(set(roots)),
            f"the spans are {list(by_name)}",
        )
        granted, held = sorted(by_name["acquire"], key=start)
        expect(attributes(granted)["interlock.decision"] == "granted", "a lock's grant is missing")
        expect(int(attributes(granted)["interlock.fence"]) > 0, "a lock's fence is missing")
        expect(attributes(held)["interlock.decision"] == "held", "a lock's refusal is missing")
        expect(attributes(held)["interlock.lock"] == "orders", "a lock's name is missing")
        expect(
            held.parent_span_id in [span.span_id for span in by_name["LOCK.ACQUIRE"]],
            "a step is not a child of its command",
        )
        steps = [attributes(span).get("interlock.service") for span in [*by_name["take"], *by_name["permit"]]]
        # A take, a permit, and the take within it.
        expect(steps.count("search") == 3, f"the steps of limits and permits are {steps}")
        self.waits(resp)
        body = json.dumps({"ttl_ms": 30000}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.servers.ports[HTTP]}/v1/locks/a",
            body,
            {"traceparent": f"{PARENT}-01"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT):
            pass
        by_name = self.by_name(2)
        call = by_name["POST /v1/locks/{name}"][0]
        expect(by_name["acquire"][0].parent_span_id == call.span_id, "a step is not a child of its request")
        expect(attributes(call)["http.response.status_code"] == 201, "a request's status is missing")
        accept = {"Accept": "application/openmetrics-text"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.servers.ports[HTTP]}/metrics", headers=accept)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            text = answer.read().decode()
        for series in ('route="/v1/locks/{name}"', 'command="lock.acquire"', "interlock_proxy_request_seconds_bucket{"):
            lines = [line for line in text.splitlines() if series in line and "trace_id" in line]
            expect(
                any(f'# {{trace_id="{PARENT[3:35]}"}}' in line for line in lines),
                f"no bucket of {series} has the trace as its exemplar: {lines}",
            )

    def waits(self, resp: Connection) -> None:
        """Checks a wait for a lock, and a cancelled wait."""
        token = self.holder(resp)
        other = Connection(self.servers.ports[RESP])
        other.send(*f"LOCK.ACQUIRE jobs 30000 WAIT 10000 TRACEPARENT {PARENT}-01".split())
        time.sleep(0.3)
        resp.send(*f"LOCK.RELEASE jobs {token}".split())
        resp.answer()
        second = token_of(other.answer())
        by_name = self.by_name(3)
        expect(
            by_name["wait"][0].parent_span_id == by_name["acquire"][0].span_id,
            "the wait is not a child of the lock",
        )
        expect(milliseconds(by_name["wait"][0]) > 200, f"the wait took {milliseconds(by_name['wait'][0]):.1f} ms")
        expect(within(by_name["wait"][0], by_name["acquire"][0]), "the wait is not within the lock's step")
        third = Connection(self.servers.ports[RESP])
        third.send(*f"LOCK.ACQUIRE jobs 30000 WAIT 10000 TRACEPARENT {PARENT}-01".split())
        time.sleep(0.2)
        third.close()
        by_name = self.by_name(2)
        expect(
            by_name["acquire"][0].status.message == "given up",
            f"its status is {by_name['acquire'][0].status}",
        )
        resp.send(*f"LOCK.RELEASE jobs {second}".split())
        resp.answer()

    def holder(self, resp: Connection) -> str:
        resp.send("LOCK.ACQUIRE", "jobs", 30000, "TRACEPARENT", "nonsense")
        token = token_of(resp.answer())
        self.by_name(2)
        return token

    def by_name(self, count: int) -> dict[str, list[trace_pb2.Span]]:
        found: dict[str, list[trace_pb2.Span]] = {}
        for span in self.spans(count):
            found.setdefault(span.name, []).append(span)
        return found

    def untraced(self) -> None:
        """Checks that an untraced caller's context, or an invalid traceparent, is forwarded unchanged."""
        self.upstream.requests = []
        for parent in (f"{PARENT}-00", f"{PARENT}-00-more", "nonsense"):
            self.call(traceparent=parent)
        expect(
            [requests["traceparent"] for requests in self.upstream.requests][:1] == [f"{PARENT}-00"],
            "the forwarded context differs",
        )
        # Invalid ones start new traces, since all calls are sampled.
        spans = [span for span in self.spans(8) if span.name.startswith("GET")]
        expect(
            all(span.trace_id.hex() != PARENT[3:35] and not span.parent_span_id for span in spans), "it has a parent"
        )
        self.upstream.requests = []
        self.call(traceparent="nonsense", tracestate=STATE)
        self.spans(4)
        expect("tracestate" not in self.upstream.requests[0], "the upstream got the state of an invalid trace")

    def sampling(self) -> None:
        self.start("0%")
        self.call()
        self.call(traceparent=f"{PARENT}-01")
        expect(len(self.spans(4)) == 4, "with a sample of 0 an untraced call is traced")
        self.start("0%", follow=False)
        self.call(traceparent=f"{PARENT}-01")
        self.spans(0)

    def collector_failures(self) -> None:
        """Checks that a busy collector is retried, and that a refusing or unreachable one delays nothing."""
        self.start("100%")
        self.collector.pause = 1.0
        self.call()
        assert self.servers.sidecar
        began = time.monotonic()
        self.servers.stop(self.servers.sidecar)
        self.servers.sidecar = None
        expect(time.monotonic() - began < 6, "a slow collector delays the shutdown")
        self.spans(4)
        self.collector.pause = 0.0
        self.start("100%")
        self.collector.statuses = [503]
        self.call()
        self.spans(4)
        self.collector.statuses = [400]
        self.call()
        self.servers.wait_until("the refusal is counted", lambda: 'outcome="failed"} 4' in self.metrics())
        self.collector.shutdown()
        self.collector.server_close()
        began = time.monotonic()
        expect(self.call() == 200, "the sidecar does not serve without its collector")
        expect(time.monotonic() - began < 2, "a call waits for the collector")
        self.servers.wait_until("the spans are counted as failed", lambda: 'outcome="failed"} 8' in self.metrics())

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.servers.ports[HTTP]}/metrics", timeout=5) as answer:
            return str(answer.read().decode())


def token_of(answer: object) -> str:
    """Returns the token of a lease."""
    return str(answer[0]) if isinstance(answer, list) else ""


def expect(condition: bool, text: str) -> None:
    if not condition:
        raise Failure(text)


def start(span: trace_pb2.Span) -> int:
    return int(span.start_time_unix_nano)


def within(span: trace_pb2.Span, other: trace_pb2.Span) -> bool:
    return bool(
        other.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= other.end_time_unix_nano
    )


def milliseconds(span: trace_pb2.Span) -> float:
    return float(span.end_time_unix_nano - span.start_time_unix_nano) / 1e6


def attributes(span: trace_pb2.Span) -> dict[str, str | int]:
    return {
        entry.key: entry.value.int_value if entry.value.HasField("int_value") else entry.value.string_value
        for entry in span.attributes
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, required=True, help="the built interlock")
    arguments = parser.parse_args()
    servers = Servers(arguments.binary.resolve(), Path(tempfile.mkdtemp(prefix="interlock-traces-")))
    try:
        count = compare_declarations(DECLARATIONS, PUBLISHED)
        print(f"traces: {count} fields match OpenTelemetry's declarations")
        check = Check(servers, Collector(), Upstream())
        check.start("100%", limit=2)
        check.complete_call()
        check.start("100%")
        check.refused()
        check.api_calls()
        check.untraced()
        check.sampling()
        check.collector_failures()
    except Failure as failure:
        sys.exit(f"traces: {failure}")
    finally:
        servers.close()
    print("traces: spans, parents, sampling and collector failures passed")


if __name__ == "__main__":
    main()

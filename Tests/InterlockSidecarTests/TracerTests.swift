import Glibc
import InterlockCore
import InterlockProcesses
import Logging
import OTLPMessages
import SwiftProtobuf
import Testing

@testable import SidecarSettings
@testable import SidecarTelemetry

@Suite("Traced calls")
struct TracerTests {
    private static func tracer(_ share: Double, follows: Bool = true, queue: SpanQueue = SpanQueue(), now: Int64 = 5) -> Tracer {
        var settings = TracingSettings(endpoint: "http://127.0.0.1:4318")
        settings.samplingRate = share
        settings.followsParents = follows
        return Tracer(settings, queue: queue, seed: 7, now: { now })
    }

    private static func parent(isSampled: Bool, low: UInt64 = 1) -> TraceContext {
        TraceContext(traceID: .init(high: 1, low: low), spanID: 9, isSampled: isSampled, state: "a=b")
    }

    @Test("A fraction of the calls without trace context is traced", arguments: [0, 0.01, 0.5, 1])
    func fractionOfCallsWithoutTraceContextIsTraced(share: Double) {
        let tracer = Self.tracer(share)
        let count = (0..<10_000).count { _ in tracer.begin("a", kind: .server, parent: nil) != nil }
        // The tolerance is five standard deviations.
        let spread = 5 * (10_000 * share * (1 - share)).squareRoot()
        #expect(abs(Double(count) - 10_000 * share) <= spread)
    }

    @Test("A caller's sampling decision overrides the fraction")
    func callerSamplingDecisionOverridesFraction() throws {
        #expect(Self.tracer(1).begin("a", kind: .server, parent: Self.parent(isSampled: false)) == nil)
        let span = try #require(Self.tracer(0).begin("a", kind: .server, parent: Self.parent(isSampled: true)))
        #expect(span.context.traceID == .init(high: 1, low: 1))
        #expect(span.context.state == "a=b")
        #expect(span.context.spanID != 9)
    }

    @Test("If callers' decisions are ignored, the trace ID decides, identically on every sidecar")
    func notFollowed() {
        for isSampled in [true, false] {
            for (low, isTraced) in [(UInt64(1) << 55, true), ((UInt64(1) << 55) - 1, false), (.max, true), (0xFF << 56, false)] {
                let parent = Self.parent(isSampled: isSampled, low: low)
                #expect((Self.tracer(0.5, follows: false).begin("a", kind: .server, parent: parent) != nil) == isTraced)
            }
        }
        #expect(Self.tracer(0, follows: false).begin("a", kind: .server, parent: Self.parent(isSampled: true, low: .max)) == nil)
    }

    @Test("A span is reported once, with its parent, and never starts after its end")
    func spanIsReportedOnce() throws {
        let queue = SpanQueue()
        let span = try #require(Self.tracer(1, queue: queue).begin("a", kind: .server, parent: Self.parent(isSampled: true)))
        let child = span.child("b", kind: .client)
        child.set("n", 3)
        child.fail("first")
        child.fail("second")
        child.end(atNanoseconds: 1)
        child.end(atNanoseconds: 9)
        span.end()
        let (batches, dropped) = queue.take()
        #expect(dropped == 0)
        let request = try Opentelemetry_Proto_Collector_Trace_V1_ExportTraceServiceRequest(
            serializedBytes: SpanMessages(resource: [:]).request(batches[0]))
        let spans = request.resourceSpans[0].scopeSpans[0].spans
        #expect(spans.map(\.name) == ["b", "a"])
        let parents = spans.map { span in span.parentSpanID.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        #expect(parents == [span.context.spanID, 9])
        #expect(spans.map(\.endTimeUnixNano) == [5, 5])
        #expect(spans[0].status.message == "first")
        #expect(queue.take().batches.isEmpty)
    }

    @Test("Spans beyond a full queue are dropped and counted")
    func spansBeyondFullQueueAreDroppedAndCounted() throws {
        let queue = SpanQueue()
        let tracer = Self.tracer(1, queue: queue)
        tracer.begin("a", kind: .server, parent: nil)?.end()
        #expect(!queue.hasBatch)
        for _ in 0..<(SpanQueue.capacity + 9) { tracer.begin("a", kind: .server, parent: nil)?.end() }
        #expect(queue.hasBatch)
        let (batches, dropped) = queue.take()
        #expect(batches.reduce(0) { $0 + $1.count } == SpanQueue.capacity)
        #expect(dropped == 10)
        #expect(queue.take().droppedCount == 0)
        #expect(!queue.hasBatch)
    }

    @Test("Cancellation ends the sending of spans")
    func cancellationEndsSendingOfSpans() async throws {
        let exporter = try SpanExporter(
            TracingSettings(endpoint: "http://127.0.0.1:4318"), queue: SpanQueue(), resource: [:],
            logger: Logger(label: "cancelled") { _ in SwiftLogNoOpLogHandler() })
        let running = Task { try await exporter.run() }
        running.cancel()
        try await running.value
    }

    @Test("A URL alone configures tracing, optionally with a fraction")
    func urlAloneConfiguresTracing() throws {
        func load(_ yaml: String) throws -> TracingSettings? {
            try SidecarConfiguration.load(yaml: yaml, fileName: "a.yaml").tracing
        }
        #expect(try load("") == nil)
        let whole = try load("tracing: { endpoint: 'http://127.0.0.1:4318', sample: 0.1%, follow_parents: false }")
        #expect(whole?.samplingRate == 0.001)
        #expect(whole?.followsParents == false)
        for (yaml, word) in [
            ("tracing: { sample: 1% }", "endpoint"), ("tracing: { endpoint: 'ftp://a' }", "http://"),
            ("tracing: { endpoint: 'http://a', sample: 101% }", "100%"),
            ("tracing: { endpoint: 'http://a', samples: 1% }", "sample"),
            ("tracing: http://127.0.0.1:4318", "endpoint"), ("tracing: { endpoint: 'https://a', ca: /nowhere }", "readable"),
            ("tracing: { endpoint: 'https://a', headers: [ { name: Host, value: b } ] }", "does not set itself"),
            ("tracing: { endpoint: 'https://a', headers: [ { name: 'a b', value: b } ] }", "name of a header field"),
            ("tracing: { endpoint: 'https://a', headers: [ { name: a, value: b, value_file: c } ] }", "value_file"),
            ("tracing: { endpoint: 'https://a', headers: [ { name: a, value_file: /nowhere } ] }", "no such file"),
        ] {
            do {
                _ = try load(yaml)
                Issue.record("accepted: \(yaml)")
            } catch {
                #expect("\(error)".contains(word), "\(error)")
            }
        }
    }

    @Test("Collector header fields come from the file or from another one, and are never printed")
    func headers() throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let path = "\(folder.path)/secret"
        let file = fopen(path, "w")
        fputs("Bearer correct-horse\n", file)
        fclose(file)
        let yaml = """
            tracing:
              endpoint: 'https://a'
              headers: [ { name: X-Tenant, value: shop }, { name: Authorization, value_file: '\(path)' } ]
            """
        let configuration = try SidecarConfiguration.load(yaml: yaml, fileName: "a.yaml")
        #expect(
            configuration.tracing?.headers == [
                .init(name: "X-Tenant", value: "shop"), .init(name: "Authorization", value: "Bearer correct-horse"),
            ])
        let printedYAML = try EffectiveConfiguration(configuration).yaml
        #expect(printedYAML.contains("Authorization") && !printedYAML.contains("correct-horse") && !printedYAML.contains("shop"))
        let described = "\(configuration.tracing?.headers ?? [])"
        #expect(!described.contains("correct-horse"))
        do {
            _ = try SidecarConfiguration.load(
                yaml: "tracing: { endpoint: 'https://a', headers: [ { name: a, value: \"sec\u{e9}ret\" } ] }", fileName: "a.yaml")
            Issue.record("accepted")
        } catch {
            #expect(!"\(error)".contains("ret\""), "\(error)")
        }
    }
}

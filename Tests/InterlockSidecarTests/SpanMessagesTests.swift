import FoundationEssentials
import InterlockCore
import OTLPMessages
import SwiftProtobuf
import Testing

@testable import SidecarTelemetry

/// The hand-written encoder agrees with the generated types.
@Suite("Messages to a collector")
struct SpanMessagesTests {
    typealias Request = Opentelemetry_Proto_Collector_Trace_V1_ExportTraceServiceRequest
    typealias KeyValue = Opentelemetry_Proto_Common_V1_KeyValue

    private static let texts = ["", "a", "größer", String(repeating: "long", count: 32), String(repeating: "x", count: 512)]

    @Test("Spans are encoded byte for byte like the generated types", arguments: 0..<20 as Range<UInt64>)
    func spansAreEncodedByteForByteLikeGeneratedTypes(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        // With these counts, the length prefixes of the outer messages take one to three bytes.
        for count in [0, 1, 2, 60, 400] {
            let spans = (0..<count).map { _ in Self.span(&random) }
            let resource: KeyValuePairs = ["service.name": "interlock", "host.name": Self.randomText(&random)]
            var batch = SpanBatch()
            for span in spans { batch.append(span) }
            #expect(batch.count == count)
            let written = SpanMessages(resource: resource).request(batch)
            let request = Self.request(spans, resource)
            #expect(try Request(serializedBytes: written) == request)
            #expect(try written == request.serializedBytes() as [UInt8])
        }
    }

    @Test("A message ends with the span that fills it, and the next message starts with the next span")
    func long() throws {
        var random = SeededRandom(seed: 1)
        let spans = (0..<8000).map { _ in Self.span(&random) }
        let queue = SpanQueue()
        for span in spans { queue.push(span) }
        let messages = SpanMessages(resource: ["service.name": "interlock"])
        let bodies = queue.take().batches.map(messages.request)
        #expect(bodies.count > 5)
        // The last span may have five texts of the maximum length.
        #expect(bodies.allSatisfy { $0.count < SpanBatch.maximumBytes + 5 * 600 })
        let sentSpans = try bodies.flatMap { try Request(serializedBytes: $0).resourceSpans[0].scopeSpans[0].spans }
        #expect(sentSpans == spans.map(Self.span))
    }

    private static func randomText(_ random: inout SeededRandom) -> String { texts.randomElement(using: &random) ?? "" }

    private static func number(_ random: inout SeededRandom) -> Int64 {
        [0, 1, -1, 127, 128, 1_700_000_000_000_000_000, .max, .min].randomElement(using: &random) ?? 0
    }

    private static func span(_ random: inout SeededRandom) -> FinishedSpan {
        let context = TraceContext(
            traceID: .init(high: random.next(), low: random.next()), spanID: random.next(), isSampled: true,
            state: randomText(&random))
        return FinishedSpan(
            context: context, parentID: Bool.random(using: &random) ? 0 : random.next(), name: randomText(&random),
            kind: [.internal, .server, .client].randomElement(using: &random) ?? .client, startedAtNanoseconds: number(&random),
            endedAtNanoseconds: number(&random),
            attributes: (0..<Int.random(in: 0..<4, using: &random)).map { _ in
                (randomText(&random), Bool.random(using: &random) ? .text(randomText(&random)) : .integer(number(&random)))
            },
            failure: Bool.random(using: &random) ? nil : randomText(&random))
    }

    private static func request(_ spans: [FinishedSpan], _ resource: KeyValuePairs<String, String>) -> Request {
        .with { request in
            request.resourceSpans = [
                .with { group in
                    group.resource = .with { $0.attributes = resource.map { attribute($0.key, .text($0.value)) } }
                    group.scopeSpans = [
                        .with { scope in
                            scope.scope = .with {
                                $0.name = "interlock"
                                $0.version = SidecarVersion.current
                            }
                            scope.spans = spans.map(span)
                        }
                    ]
                }
            ]
        }
    }

    private static func span(_ finished: FinishedSpan) -> Opentelemetry_Proto_Trace_V1_Span {
        .with { span in
            span.traceID = bytes(finished.context.traceID.high) + bytes(finished.context.traceID.low)
            span.spanID = bytes(finished.context.spanID)
            if finished.parentID != 0 { span.parentSpanID = bytes(finished.parentID) }
            span.traceState = finished.context.state
            span.flags = 1
            span.name = finished.name
            span.kind =
                switch finished.kind {
                case .internal: .internal
                case .server: .server
                case .client: .client
                }
            span.startTimeUnixNano = UInt64(clamping: finished.startedAtNanoseconds)
            span.endTimeUnixNano = UInt64(clamping: finished.endedAtNanoseconds)
            span.attributes = finished.attributes.map { attribute($0.name, $0.value) }
            if let failure = finished.failure {
                span.status = .with {
                    $0.code = .error
                    $0.message = failure
                }
            }
        }
    }

    private static func attribute(_ name: String, _ value: Span.Value) -> KeyValue {
        .with { attribute in
            attribute.key = name
            attribute.value = .with {
                switch value {
                case .text(let text): $0.stringValue = text
                case .integer(let number): $0.intValue = number
                }
            }
        }
    }

    /// Returns the bytes of a number in big-endian order.
    private static func bytes(_ number: UInt64) -> Data {
        withUnsafeBytes(of: number.bigEndian) { Data($0) }
    }
}

internal import InterlockCore
internal import OTLPMessages

/// Writes an `ExportTraceServiceRequest` field by field, because the generated types took three quarters of a traced
/// call's cost. Field numbers are those of `trace.proto`, `common.proto` and `resource.proto`, and the output matches
/// that of the generated types byte for byte.
struct SpanMessages {
    /// The maximum size of the tags and lengths around the parts of a message, in bytes.
    private static let maximumEnvelopeBytes = 16

    /// The encoded source of the spans, which is the same in all messages.
    private let resource: [UInt8]
    /// The encoded name and version of the library that made the spans.
    private let scope: [UInt8]

    /// Encodes the parts that all messages share.
    /// - Parameter resource: the attributes of the spans' source.
    init(resource: KeyValuePairs<String, String>) {
        self.resource = ProtobufWriter.bytes { writer in
            writer.write(1) { message in
                for (name, value) in resource { message.write(1) { SpanBatch.write(name, .text(value), to: &$0) } }
            }
        }
        scope = ProtobufWriter.bytes { writer in
            writer.write(1) {
                $0.write(1, "interlock")
                $0.write(2, SidecarVersion.current)
            }
        }
    }

    /// Returns the encoded request that exports a batch.
    func request(_ batch: SpanBatch) -> [UInt8] {
        ProtobufWriter.bytes(capacity: resource.count + scope.count + batch.bytes.count + Self.maximumEnvelopeBytes) { writer in
            writer.write(1) { resourceSpans in
                resourceSpans.append(resource)
                resourceSpans.write(2) { scopeSpans in
                    scopeSpans.append(scope)
                    scopeSpans.append(batch.bytes)
                }
            }
        }
    }
}

/// The encoded spans of one message. Spans are encoded soon after they end, and only one buffer is kept until they are
/// sent. If the sending thread freed the spans instead, the memory of the thread that created them would fragment.
struct SpanBatch: Sendable {
    /// The size, in bytes, at which a batch is full; its last span may exceed it. Proxies before a collector often
    /// accept one megabyte.
    static let maximumBytes = 1 << 19

    private(set) var count = 0
    private var writer = ProtobufWriter(capacity: 1 << 12)

    var bytes: [UInt8] { writer.bytes }
    var isFull: Bool { writer.bytes.count >= Self.maximumBytes }

    mutating func append(_ span: FinishedSpan) {
        count += 1
        writer.write(2) { Self.write(span, to: &$0) }
    }

    private static func write(_ span: FinishedSpan, to writer: inout ProtobufWriter) {
        writer.write(1) {
            $0.append(bigEndian: span.context.traceID.high)
            $0.append(bigEndian: span.context.traceID.low)
        }
        writer.write(2) { $0.append(bigEndian: span.context.spanID) }
        writer.write(3, span.context.state)
        if span.parentID != 0 { writer.write(4) { $0.append(bigEndian: span.parentID) } }
        writer.write(5, span.name)
        writer.write(6, kind(span.kind))
        writer.write(7, fixed64: UInt64(clamping: span.startedAtNanoseconds))
        writer.write(8, fixed64: UInt64(clamping: span.endedAtNanoseconds))
        for attribute in span.attributes { writer.write(9) { write(attribute.name, attribute.value, to: &$0) } }
        if let failure = span.failure {
            writer.write(15) {
                $0.write(2, failure)
                $0.write(3, code(.error))
            }
        }
        // The flag of a sampled span.
        writer.write(16, fixed32: 1)
    }

    /// Writes a `KeyValue`.
    fileprivate static func write(_ name: String, _ value: Span.Value, to writer: inout ProtobufWriter) {
        writer.write(1, name)
        writer.write(2) {
            switch value {
            case .text(let text): $0.write(1, oneOf: text)
            case .integer(let number): $0.write(3, oneOf: UInt64(bitPattern: number))
            }
        }
    }

    private static func code(_ code: Opentelemetry_Proto_Trace_V1_Status.StatusCode) -> UInt64 { UInt64(code.rawValue) }

    private static func kind(_ kind: Span.Kind) -> UInt64 {
        let kind: Opentelemetry_Proto_Trace_V1_Span.SpanKind =
            switch kind {
            case .internal: .internal
            case .server: .server
            case .client: .client
            }
        return UInt64(kind.rawValue)
    }
}

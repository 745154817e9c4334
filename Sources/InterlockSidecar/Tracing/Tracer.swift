internal import Glibc
internal import InterlockCore
internal import NIOConcurrencyHelpers

/// Decides which calls are traced, and begins their spans. Confined to the coordinator's event loop.
///
/// A call whose caller is traced, or is not, is treated alike, unless callers are not to be followed; of the others a share is traced, by
/// the trace's ID: sidecars that see the same trace decide alike.
package final class Tracer {
    private let settings: TracingSettings
    let queue: SpanQueue
    /// Nanoseconds since 1970.
    let now: () -> Int64
    private var random: any RandomNumberGenerator
    /// Traces whose last 56 bits are below are not sampled.
    private let threshold: UInt64

    private static let randomBits: UInt64 = (1 << 56) - 1

    init(
        _ settings: TracingSettings, queue: SpanQueue, random: any RandomNumberGenerator = SystemRandomNumberGenerator(),
        now: @escaping () -> Int64 = Tracer.wallNanoseconds
    ) {
        self.settings = settings
        self.queue = queue
        self.random = random
        self.now = now
        threshold = settings.share >= 1 ? 0 : UInt64((1 - settings.share) * Double(Self.randomBits + 1))
    }

    /// - Parameter parent: what its caller said.
    /// - Returns: `nil`: the call is not traced.
    func begin(_ name: String, kind: Span.Kind, parent: TraceContext?) -> Span? {
        if let parent, settings.followsParents {
            guard parent.isSampled else { return nil }
            return span(name, kind, of: parent.traceID, state: parent.state, parentID: parent.spanID)
        }
        let trace = parent?.traceID ?? TraceContext.TraceID(high: random.next(), low: random.next() | 1)
        guard trace.low & Self.randomBits >= threshold, settings.share > 0 else { return nil }
        return span(name, kind, of: trace, state: parent?.state ?? "", parentID: parent?.spanID ?? 0)
    }

    private func span(
        _ name: String, _ kind: Span.Kind, of trace: TraceContext.TraceID, state: String, parentID: UInt64
    ) -> Span {
        let context = TraceContext(traceID: trace, spanID: newSpanID(), isSampled: true, state: state)
        return Span(name, kind: kind, context: context, parentID: parentID, startedAt: now(), tracer: self)
    }

    func newSpanID() -> UInt64 { max(1, random.next()) }

    private static func wallNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// Spans that are over and were not sent yet: so many at most, and those that come then are dropped and counted.
final class SpanQueue: Sendable {
    private struct State {
        var spans: [FinishedSpan] = []
        var dropped: Int64 = 0
    }

    /// Some 4 MB.
    static let capacity = 8192

    private let state = NIOLockedValueBox(State())

    func push(_ span: FinishedSpan) {
        state.withLockedValue { state in
            if state.spans.count < Self.capacity { state.spans.append(span) } else { state.dropped += 1 }
        }
    }

    /// Takes all, and how many were dropped since it was last asked.
    func take() -> (spans: [FinishedSpan], dropped: Int64) {
        state.withLockedValue { state in
            defer { state = State() }
            return (state.spans, state.dropped)
        }
    }
}

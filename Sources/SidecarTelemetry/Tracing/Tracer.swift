internal import Glibc
package import InterlockCore
package import SidecarSettings

/// Decides which calls are traced, and begins their spans. Confined to the coordinator's event loop.
///
/// A call is traced if its caller is, unless the settings say otherwise. Other calls are sampled at a rate by their
/// trace ID, so that all sidecars make the same decision about a trace.
package final class Tracer {
    private let settings: TracingSettings
    let queue: SpanQueue
    /// Returns the time, as Unix time in nanoseconds.
    let now: () -> Int64
    private var random: SeededRandom
    /// The value of a trace ID's last 56 bits below which the trace is not sampled.
    private let threshold: UInt64
    /// The number of calls without a parent to skip before the next one is sampled.
    private var callsToSkip: UInt64 = 0

    private static let randomBits: UInt64 = (1 << 56) - 1

    package init(
        _ settings: TracingSettings, queue: SpanQueue, seed: UInt64 = .random(in: .min ... .max),
        now: @escaping () -> Int64 = Tracer.wallNanoseconds
    ) {
        self.settings = settings
        self.queue = queue
        random = SeededRandom(seed: seed)
        self.now = now
        threshold = settings.samplingRate >= 1 ? 0 : UInt64((1 - settings.samplingRate) * Double(Self.randomBits + 1))
        callsToSkip = drawCallsToSkip()
    }

    /// Whether the next call without a parent is traced. If not, the call counts as skipped, and `begin` must not be
    /// called for it.
    package var isNextSampled: Bool {
        guard callsToSkip > 0 else { return true }
        callsToSkip -= 1
        return false
    }

    /// Begins the span of a call.
    /// - Parameter parent: the trace context that the caller sent.
    /// - Returns: `nil` if the call is not traced.
    package func begin(_ name: String, kind: Span.Kind, parent: TraceContext?) -> Span? {
        if let parent, settings.followsParents {
            guard parent.isSampled else { return nil }
            return span(name, kind, of: parent.traceID, state: parent.state, parentID: parent.spanID)
        }
        if let parent {
            guard parent.traceID.low & Self.randomBits >= threshold, settings.samplingRate > 0 else { return nil }
            return span(name, kind, of: parent.traceID, state: parent.state, parentID: parent.spanID)
        }
        guard isNextSampled else { return nil }
        callsToSkip = drawCallsToSkip()
        return span(name, kind, of: sampledTrace(), state: "", parentID: 0)
    }

    /// Draws the number of calls to skip before the next sampled one, so that each has the same probability. Skipping a
    /// call is as cheap as decrementing a number.
    private func drawCallsToSkip() -> UInt64 {
        guard settings.samplingRate > 0 else { return .max }
        guard settings.samplingRate < 1 else { return 0 }
        // The geometric distribution, by inversion of a uniform number above 0 and at most 1.
        let uniform = Double((random.next() >> 11) + 1) / Double(1 << 53)
        return UInt64(min(log(uniform) / log1p(-settings.samplingRate), 1e18))
    }

    /// Returns a new trace ID that every sidecar with this rate would sample.
    private func sampledTrace() -> TraceContext.TraceID {
        let bits = UInt64.random(in: threshold...Self.randomBits, using: &random)
        return TraceContext.TraceID(high: random.next(), low: max(1, random.next() & ~Self.randomBits | bits))
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

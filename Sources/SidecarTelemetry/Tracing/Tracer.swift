internal import Glibc
package import InterlockCore
package import SidecarSettings

/// Decides which calls are traced, and begins their spans. Confined to the coordinator's event loop.
///
/// A call is traced if its caller is, unless the settings disable that. All other calls are sampled by their trace ID,
/// so that all sidecars make the same decision about a trace.
package final class Tracer {
    private let settings: TracingSettings
    let queue: SpanQueue
    /// Returns the time, as Unix time in nanoseconds.
    let now: () -> Int64
    private var random: SeededRandom
    /// The smallest value of the last 56 bits of a trace ID at which the trace is sampled.
    private let samplingThreshold: UInt64
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
        samplingThreshold =
            settings.samplingRate >= 1 ? 0 : UInt64((1 - settings.samplingRate) * Double(Self.randomBits + 1))
        callsToSkip = drawCallsToSkip()
    }

    /// Decides whether the next call without a parent is traced. If the result is false, the call counts as skipped,
    /// and `begin` must not be called for it.
    package func drawSamplingDecision() -> Bool {
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
            guard parent.traceID.low & Self.randomBits >= samplingThreshold, settings.samplingRate > 0 else {
                return nil
            }
            return span(name, kind, of: parent.traceID, state: parent.state, parentID: parent.spanID)
        }
        guard drawSamplingDecision() else { return nil }
        callsToSkip = drawCallsToSkip()
        return span(name, kind, of: sampledTrace(), state: "", parentID: 0)
    }

    /// Draws the number of calls to skip before the next sampled one, such that each call has the same probability. A
    /// skipped call costs only a decrement.
    private func drawCallsToSkip() -> UInt64 {
        guard settings.samplingRate > 0 else { return .max }
        guard settings.samplingRate < 1 else { return 0 }
        // The geometric distribution, by inversion of a uniform number above 0 and at most 1.
        let uniform = Double((random.next() >> 11) + 1) / Double(1 << 53)
        return UInt64(min(log(uniform) / log1p(-settings.samplingRate), 1e18))
    }

    /// Returns a new trace ID that every sidecar with this rate would sample.
    private func sampledTrace() -> TraceContext.TraceID {
        let bits = UInt64.random(in: samplingThreshold...Self.randomBits, using: &random)
        return TraceContext.TraceID(high: random.next(), low: max(1, random.next() & ~Self.randomBits | bits))
    }

    private func span(
        _ name: String, _ kind: Span.Kind, of trace: TraceContext.TraceID, state: String, parentID: UInt64
    ) -> Span {
        let context = TraceContext(traceID: trace, spanID: newSpanID(), isSampled: true, state: state)
        return Span(name, kind: kind, context: context, parentID: parentID, startedAtNanoseconds: now(), tracer: self)
    }

    func newSpanID() -> UInt64 { max(1, random.next()) }

    private static func wallNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

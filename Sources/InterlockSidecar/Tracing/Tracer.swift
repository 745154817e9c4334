internal import Glibc
internal import InterlockCore
internal import NIOConcurrencyHelpers

/// `tracing`: which calls are traced, and where their spans go.
package struct TracingSettings: Sendable, Equatable {
    /// A header field of each request to the collector. It may hold an API key.
    package struct Header: Sendable, Equatable, CustomStringConvertible {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }

        /// The value is never shown.
        package var description: String { name }
    }

    /// `tracing.endpoint`: a collector that takes OTLP over HTTP; without a path `/v1/traces` is meant.
    package var endpoint: String
    /// `tracing.ca`: a PEM file of the authorities that may have signed the collector's certificate; `nil` for the
    /// system's.
    package var certificateAuthority: String?
    /// A digest of that file as it was read.
    package var certificateAuthorityDigest: [UInt8]?
    /// `tracing.headers`: none by default.
    package var headers: [Header] = []
    /// `tracing.sample`: the share of the calls that is traced whose callers say nothing; 1 % by default.
    package var share = 0.01
    /// `tracing.follow_parents`: a call is traced when its caller is; true by default.
    package var followsParents = true

    package init(endpoint: String) {
        self.endpoint = endpoint
    }
}

/// Decides which calls are traced, and begins their spans. Confined to the coordinator's event loop.
///
/// A call whose caller is traced, or is not, is treated alike, unless callers are not to be followed; of the others a share is traced, by
/// the trace's ID: sidecars that see the same trace decide alike.
package final class Tracer {
    private let settings: TracingSettings
    let queue: SpanQueue
    /// Nanoseconds since 1970.
    let now: () -> Int64
    private var random: SeededRandom
    /// Traces whose last 56 bits are below are not sampled.
    private let threshold: UInt64
    /// How many of the calls without a parent are not sampled before the next is.
    private var untilNext: UInt64 = 0

    private static let randomBits: UInt64 = (1 << 56) - 1

    init(
        _ settings: TracingSettings, queue: SpanQueue, seed: UInt64 = .random(in: .min ... .max),
        now: @escaping () -> Int64 = Tracer.wallNanoseconds
    ) {
        self.settings = settings
        self.queue = queue
        random = SeededRandom(seed: seed)
        self.now = now
        threshold = settings.share >= 1 ? 0 : UInt64((1 - settings.share) * Double(Self.randomBits + 1))
        untilNext = gap()
    }

    /// Whether the next call without a parent is traced; if it is not, it has been counted, and is not to be begun.
    var isNextSampled: Bool {
        guard untilNext > 0 else { return true }
        untilNext -= 1
        return false
    }

    /// - Parameter parent: what its caller said.
    /// - Returns: `nil`: the call is not traced.
    func begin(_ name: String, kind: Span.Kind, parent: TraceContext?) -> Span? {
        if let parent, settings.followsParents {
            guard parent.isSampled else { return nil }
            return span(name, kind, of: parent.traceID, state: parent.state, parentID: parent.spanID)
        }
        if let parent {
            guard parent.traceID.low & Self.randomBits >= threshold, settings.share > 0 else { return nil }
            return span(name, kind, of: parent.traceID, state: parent.state, parentID: parent.spanID)
        }
        guard isNextSampled else { return nil }
        untilNext = gap()
        return span(name, kind, of: sampledTrace(), state: "", parentID: 0)
    }

    /// How many calls are left out before the next that is sampled, so that each is with the same probability: for those that are not it
    /// costs no more than counting.
    private func gap() -> UInt64 {
        guard settings.share > 0 else { return .max }
        guard settings.share < 1 else { return 0 }
        // A geometric distribution by inversion, of a number above 0 and at most 1.
        let chance = Double((random.next() >> 11) + 1) / Double(1 << 53)
        return UInt64(min(log(chance) / log1p(-settings.share), 1e18))
    }

    /// One that every sidecar with this share would sample.
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

/// Spans that are over and were not sent yet: so many at most, and those that come then are dropped and counted.
final class SpanQueue: Sendable {
    private struct State {
        /// The last of them, not written yet.
        var unwritten: [FinishedSpan] = []
        var batches: [SpanBatch] = []
        var count = 0
        var dropped: Int64 = 0

        mutating func write() {
            for span in unwritten {
                if batches.last?.isFull ?? true { batches.append(SpanBatch()) }
                batches[batches.count - 1].append(span)
            }
            unwritten.removeAll(keepingCapacity: true)
        }
    }

    /// Some 2 MB as written, of the longest texts 20.
    static let capacity = 8192
    private static let many = capacity / 8
    /// Written in one go: for each by itself, seldom as it comes, the processor would have to fetch the code that writes it.
    private static let together = 16

    private let state = NIOLockedValueBox(State())

    func push(_ span: FinishedSpan) {
        state.withLockedValue { state in
            guard state.count < Self.capacity else { return state.dropped += 1 }
            state.count += 1
            state.unwritten.append(span)
            if state.unwritten.count >= Self.together { state.write() }
        }
    }

    /// They are worth a message, and to be sent before more come than there is room for.
    var hasMany: Bool { state.withLockedValue { $0.count >= Self.many } }

    /// Takes all, and how many were dropped since it was last asked.
    func take() -> (batches: [SpanBatch], dropped: Int64) {
        state.withLockedValue { state in
            state.write()
            defer { state = State() }
            return (state.batches, state.dropped)
        }
    }
}

internal import Glibc
internal import NIOConcurrencyHelpers

/// Finished spans that are not sent yet. Spans beyond the capacity are dropped and counted.
package final class SpanQueue: Sendable {
    private struct State {
        /// The latest spans, not encoded yet.
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

    /// The most spans: about 2 MB when encoded, or 20 MB with the longest texts.
    static let capacity = 8192
    private static let many = capacity / 8
    /// The number of spans that are encoded together. Encoding them one by one, far apart, would fetch the encoder's
    /// code into the processor's cache each time.
    private static let together = 16

    private let state = NIOLockedValueBox(State())

    package init() {}

    func push(_ span: FinishedSpan) {
        state.withLockedValue { state in
            guard state.count < Self.capacity else { return state.dropped += 1 }
            state.count += 1
            state.unwritten.append(span)
            if state.unwritten.count >= Self.together { state.write() }
        }
    }

    /// Whether enough spans wait for a message; sending them now keeps room for others.
    var hasMany: Bool { state.withLockedValue { $0.count >= Self.many } }

    /// Removes and returns all spans, with the number of spans dropped since the last call.
    func take() -> (batches: [SpanBatch], dropped: Int64) {
        state.withLockedValue { state in
            state.write()
            defer { state = State() }
            return (state.batches, state.dropped)
        }
    }
}

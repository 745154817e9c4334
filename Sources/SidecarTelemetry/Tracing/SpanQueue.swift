internal import Glibc
internal import NIOConcurrencyHelpers

/// Spans that are over and were not sent yet: so many at most, and those that come then are dropped and counted.
package final class SpanQueue: Sendable {
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

    package init() {}

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

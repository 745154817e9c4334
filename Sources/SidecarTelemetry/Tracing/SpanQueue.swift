internal import Glibc
internal import NIOConcurrencyHelpers

/// The finished spans that are not sent yet. If the queue is full, new spans are dropped and counted.
package final class SpanQueue: Sendable {
    private struct State {
        /// The latest spans, which are not encoded yet.
        var unencoded: [FinishedSpan] = []
        var batches: [SpanBatch] = []
        var count = 0
        var droppedCount: Int64 = 0

        mutating func encode() {
            for span in unencoded {
                if batches.last?.isFull ?? true { batches.append(SpanBatch()) }
                batches[batches.count - 1].append(span)
            }
            unencoded.removeAll(keepingCapacity: true)
        }
    }

    /// The maximum number of spans: about 2 MB when encoded, or 20 MB with the longest texts.
    static let capacity = 8192
    /// The number of spans at which the queue is sent without waiting for more.
    private static let batchThreshold = capacity / 8
    /// The number of spans that are encoded together. If they were encoded one by one, the processor would load the
    /// encoder's code into its cache each time.
    private static let encodingThreshold = 16

    private let state = NIOLockedValueBox(State())

    package init() {}

    /// Adds a span, or drops it if the queue is full.
    func push(_ span: FinishedSpan) {
        state.withLockedValue { state in
            guard state.count < Self.capacity else { return state.droppedCount += 1 }
            state.count += 1
            state.unencoded.append(span)
            if state.unencoded.count >= Self.encodingThreshold { state.encode() }
        }
    }

    /// Whether there are enough spans to send now.
    var hasBatch: Bool { state.withLockedValue { $0.count >= Self.batchThreshold } }

    /// Removes and returns all spans, with the number of spans dropped since the last call.
    func take() -> (batches: [SpanBatch], droppedCount: Int64) {
        state.withLockedValue { state in
            state.encode()
            defer { state = State() }
            return (state.batches, state.droppedCount)
        }
    }
}

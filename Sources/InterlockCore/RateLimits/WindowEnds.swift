/// The ends of fixed windows that Redis has reported. An end does not change, so Redis does not have to report it
/// again.
///
/// The number of ends is bounded. Subjects are stored as 64-bit digests. After a collision of two digests, callers may
/// be shown the end of another window, but all counts remain correct.
struct WindowEnds: Sendable {
    private struct Key: Hashable {
        /// The index of the limit's definition.
        var definitionIndex: Int
        /// The digest of the subject; 0 for a limit of the whole service.
        var subjectDigest: Int
    }

    /// The number of ends beyond which all are forgotten, because most of them have passed by then.
    private static let capacity = 16_384

    /// The end of each window, as Unix time in milliseconds by the Redis clock.
    private var endMilliseconds: [Key: Int64] = [:]

    /// The end of a counter's window, as Unix time in milliseconds by the Redis clock; 0 if unknown.
    subscript(counter: LimitBatch.Counter) -> Int64 { endMilliseconds[Self.key(of: counter)] ?? 0 }

    private static func key(of counter: LimitBatch.Counter) -> Key {
        Key(definitionIndex: counter.definitionIndex, subjectDigest: counter.name.map { ExactText($0).hashValue } ?? 0)
    }

    /// Records the ends of open windows that were not known before this verdict.
    mutating func record(_ batch: LimitBatch, _ verdict: BatchVerdict) {
        // Redis does not know the windows of local counters.
        guard verdict.timeMicroseconds > 0 else { return }
        let nowMilliseconds = verdict.timeMicroseconds / 1000
        for (counter, state) in zip(batch.counters, verdict.counters) {
            let definition = batch.definitions[counter.definitionIndex]
            // An end more than one window ahead dates from before the clock was set back.
            let isKnown =
                counter.endsAtMilliseconds > nowMilliseconds
                && counter.endsAtMilliseconds - nowMilliseconds <= definition.windowMilliseconds
            guard !isKnown, state.count > 0, definition.algorithm == .fixed else { continue }
            if endMilliseconds.count >= Self.capacity { endMilliseconds = [:] }
            endMilliseconds[Self.key(of: counter)] = nowMilliseconds + state.resetAfterMilliseconds
        }
    }
}

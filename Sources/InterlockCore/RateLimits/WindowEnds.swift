/// The ends of fixed windows that Redis has reported. An end does not change, so it is not read again.
///
/// The number of ends is bounded. Keys are 64-bit digests: after a collision callers may be shown the end of another
/// window, but counts are not affected.
struct WindowEnds: Sendable {
    private struct Key: Hashable {
        var definition: Int
        var subject: Int
    }

    /// The number of ends at which all are forgotten, because most have passed by then.
    private static let capacity = 16_384

    /// The end of each window, in milliseconds of the Redis clock.
    private var ends: [Key: Int64] = [:]

    /// The end of a counter's window in milliseconds of the Redis clock; 0 if unknown.
    subscript(counter: LimitBatch.Counter) -> Int64 { ends[Self.key(of: counter)] ?? 0 }

    private static func key(of counter: LimitBatch.Counter) -> Key {
        Key(definition: counter.definition, subject: counter.name.map { ExactText($0).hashValue } ?? 0)
    }

    /// Adds the unknown ends of windows that a verdict found open.
    mutating func note(_ batch: LimitBatch, _ verdict: BatchVerdict) {
        // Redis does not know the windows of local counters.
        guard verdict.timeMicroseconds > 0 else { return }
        let now = verdict.timeMicroseconds / 1000
        for (counter, judged) in zip(batch.counters, verdict.counters) {
            let definition = batch.definitions[counter.definition]
            // An end more than one window ahead is from before the clock was set back.
            let isKnown = counter.endsAt > now && counter.endsAt - now <= definition.windowMilliseconds
            guard !isKnown, judged.count > 0, definition.algorithm == .fixed else { continue }
            if ends.count >= Self.capacity { ends = [:] }
            ends[Self.key(of: counter)] = now + judged.resetAfter
        }
    }
}

/// When fixed windows end, as far as Redis has told: what does not change need not be asked for again.
///
/// Kept for a bounded number of counters, by digests of 64 bits; where two share one, callers may be told another time, and nothing else
/// rests on it.
struct WindowEnds: Sendable {
    private struct Key: Hashable {
        var definition: Int
        var subject: Int
    }

    /// With more than so many all are forgotten, most of which have ended.
    private static let capacity = 16_384

    /// The end of each window, in ms by Redis' clock.
    private var ends: [Key: Int64] = [:]

    /// In ms by Redis' clock; 0: it is not known.
    subscript(counter: LimitBatch.Counter) -> Int64 { ends[Self.key(of: counter)] ?? 0 }

    private static func key(of counter: LimitBatch.Counter) -> Key {
        Key(definition: counter.definition, subject: counter.name.map { ExactText($0).hashValue } ?? 0)
    }

    /// What a verdict tells of the windows that were there, and were not known.
    mutating func note(_ batch: LimitBatch, _ verdict: LimitVerdict) {
        // This sidecar's own counters have none that Redis knew.
        guard verdict.timeMicroseconds > 0 else { return }
        let now = verdict.timeMicroseconds / 1000
        for (counter, judged) in zip(batch.counters, verdict.counters) {
            let definition = batch.definitions[counter.definition]
            // One that is far away is of a clock that was set back.
            let isKnown = counter.endsAt > now && counter.endsAt - now <= definition.windowMilliseconds
            guard !isKnown, judged.count > 0, definition.algorithm == .fixed else { continue }
            if ends.count >= Self.capacity { ends = [:] }
            ends[Self.key(of: counter)] = now + judged.resetAfter
        }
    }
}

/// The subjects that a service has asked to be left alone by, and until when: a 429 to one tenant's call says nothing of the
/// others. For this sidecar alone. Bounded: past its capacity one is not paused, and hears of it again from the service.
package struct SubjectPauses: Sendable {
    /// The most subjects.
    package static let capacity = 4096

    /// The least time between two looks for those that are over, in milliseconds.
    private static let leastSweepPause: Int64 = 100

    private var ends: [ExactText: Instant] = [:]
    private var nextSweepAt = Instant(nanoseconds: .min)

    package init() {}

    package mutating func pause(_ subject: String, until end: Instant, now: Instant) {
        let key = ExactText(subject)
        if ends[key] == nil, ends.count >= Self.capacity {
            guard nextSweepAt <= now else { return }
            ends = ends.filter { $0.value > now }
            nextSweepAt = now.advanced(byMilliseconds: Self.leastSweepPause)
            guard ends.count < Self.capacity else { return }
        }
        ends[key] = max(ends[key] ?? end, end)
    }

    /// Until when the subject is paused; `nil`: it is not.
    package mutating func end(of subject: String?, now: Instant) -> Instant? {
        guard !ends.isEmpty, let key = subject.map(ExactText.init), let end = ends[key] else { return nil }
        guard end > now else {
            ends[key] = nil
            return nil
        }
        return end
    }
}

/// The subjects (tenants) whose calls a service asked to pause, and the ends of the pauses. A 429 to one subject's call
/// says nothing about other subjects. The pauses apply to this sidecar only. At capacity, a further subject is not
/// paused, and the service itself refuses that subject's next call.
package struct SubjectPauses: Sendable {
    /// The maximum number of paused subjects.
    package static let capacity = 4096

    /// The minimum interval between two sweeps for ended pauses, in milliseconds.
    private static let minimumSweepIntervalMilliseconds: Int64 = 100

    private var ends: [ExactText: Instant] = [:]
    private var nextSweepAt = Instant(nanoseconds: .min)

    package init() {}

    /// Pauses a subject until `end`, or until the end of a pause that lasts longer.
    package mutating func pause(_ subject: String, until end: Instant, now: Instant) {
        let key = ExactText(subject)
        if ends[key] == nil, ends.count >= Self.capacity {
            guard nextSweepAt <= now else { return }
            ends = ends.filter { $0.value > now }
            nextSweepAt = now.advanced(byMilliseconds: Self.minimumSweepIntervalMilliseconds)
            guard ends.count < Self.capacity else { return }
        }
        ends[key] = max(ends[key] ?? end, end)
    }

    /// Returns the end of the subject's pause; `nil` if the subject is not paused.
    package mutating func end(of subject: String?, now: Instant) -> Instant? {
        guard !ends.isEmpty, let key = subject.map(ExactText.init), let end = ends[key] else { return nil }
        guard end > now else {
            ends[key] = nil
            return nil
        }
        return end
    }
}

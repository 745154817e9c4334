/// The subjects (tenants) of one service that have their own counters, at most `capacity`. All others share the
/// overflow subject's counters, so made-up subjects cannot fill Redis or this process.
///
/// A subject is forgotten after one to two windows without a call; its counters have lapsed by then. The registry
/// stores 64-bit digests: two subjects with the same digest count as one known subject.
package struct SubjectRegistry: Sendable {
    /// The overflow subject, under which all subjects beyond the capacity are counted.
    package static let overflow = "~crowd"

    /// Returns the name under which a caller's subject is counted. A subject that is spelled like the overflow subject
    /// is escaped with an extra `~`.
    package static func counterName(for subject: String) -> String {
        guard subject.utf8.first == UInt8(ascii: "~"), subject.hasSuffix(overflow) else { return subject }
        return subject.utf8.dropLast(overflow.utf8.count).allSatisfy { $0 == UInt8(ascii: "~") } ? "~" + subject : subject
    }

    package var capacity: Int
    private var current: Set<Int> = []
    /// The subjects of the previous window that have not been seen since.
    private var previous: Set<Int> = []
    private var windowEnd = Instant(nanoseconds: .min)

    package init(capacity: Int) {
        self.capacity = capacity
    }

    package var count: Int { current.count + previous.count }

    /// Returns the number of subjects known at `now`. Subjects are forgotten even without calls.
    /// - Parameter window: see `register`.
    package func count(windowMilliseconds window: Int64, now: Instant) -> Int {
        guard windowEnd <= now else { return count }
        return windowEnd.advanced(byMilliseconds: window) <= now ? 0 : current.count
    }

    /// Adds a subject if it is known or the capacity allows. Returns `false` otherwise.
    /// - Parameter window: the time within which every limit forgets, in milliseconds.
    package mutating func register(_ subject: String, windowMilliseconds window: Int64, now: Instant) -> Bool {
        if windowEnd <= now {
            // The current subjects are forgotten as well if another whole window has passed.
            previous = windowEnd.advanced(byMilliseconds: window) <= now ? [] : current
            current = []
            windowEnd = now.advanced(byMilliseconds: window)
        }
        let digest = ExactText(subject).hashValue
        if current.contains(digest) { return true }
        guard previous.remove(digest) != nil || count < capacity else { return false }
        current.insert(digest)
        return true
    }

    /// Returns whether `register` would accept the subject.
    package func hasCapacity(for subject: String) -> Bool {
        guard count >= capacity else { return true }
        let digest = ExactText(subject).hashValue
        return current.contains(digest) || previous.contains(digest)
    }
}

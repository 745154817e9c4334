/// The subjects (tenants) of one service that have their own counters, at most `capacity`. All other subjects share the
/// counters of the overflow subject, so made-up subjects cannot fill Redis or this process.
///
/// The registry forgets a subject after one to two windows without a call; the subject's counters have lapsed by then.
/// The registry stores 64-bit digests, so two subjects with the same digest count as one.
package struct SubjectRegistry: Sendable {
    /// The overflow subject, whose counters all subjects beyond the capacity share.
    package static let overflow = "~crowd"

    /// Returns the name of a subject in its counters' keys. Escapes a subject that is spelled like the overflow subject
    /// with another `~`.
    package static func counterName(for subject: String) -> String {
        guard subject.utf8.first == UInt8(ascii: "~"), subject.hasSuffix(overflow) else { return subject }
        return subject.utf8.dropLast(overflow.utf8.count).allSatisfy { $0 == UInt8(ascii: "~") }
            ? "~" + subject : subject
    }

    package var capacity: Int
    /// The digests of the subjects that called in the current window.
    private var current: Set<Int> = []
    /// The digests of the subjects that called in the previous window and not since.
    private var previous: Set<Int> = []
    private var windowEnd = Instant(nanoseconds: .min)

    package init(capacity: Int) {
        self.capacity = capacity
    }

    package var count: Int { current.count + previous.count }

    /// Returns the number of subjects known at `now`, even if no call has moved the window since.
    /// - Parameter windowMilliseconds: see `register`.
    package func count(windowMilliseconds: Int64, now: Instant) -> Int {
        guard windowEnd <= now else { return count }
        return windowEnd.advanced(byMilliseconds: windowMilliseconds) <= now ? 0 : current.count
    }

    /// Adds a subject if it is known or the capacity allows. Returns `false` otherwise.
    /// - Parameter windowMilliseconds: a time after which no limit counts a grant any longer, in milliseconds.
    package mutating func register(_ subject: String, windowMilliseconds: Int64, now: Instant) -> Bool {
        if windowEnd <= now {
            // If another whole window has passed, forget the current subjects as well.
            previous = windowEnd.advanced(byMilliseconds: windowMilliseconds) <= now ? [] : current
            current = []
            windowEnd = now.advanced(byMilliseconds: windowMilliseconds)
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

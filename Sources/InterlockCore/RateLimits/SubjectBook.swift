/// The subjects of one service that have counters of their own, at most so many: whoever makes them up fills neither Redis nor this
/// process. The rest are counted together.
///
/// A subject is forgotten when it was not seen for one to two windows: its counters have lapsed by then. Kept are digests of 64
/// bits; of two subjects that share one, each is known when the other is.
package struct SubjectBook: Sendable {
    /// The subject that all are counted as who find no place.
    package static let crowd = "~crowd"

    /// The name under which a caller's subject is counted. One that is called as the crowd is has one more tilde: it takes nothing of theirs.
    package static func counted(_ subject: String) -> String {
        guard subject.utf8.first == UInt8(ascii: "~"), subject.hasSuffix(crowd) else { return subject }
        return subject.utf8.dropLast(crowd.utf8.count).allSatisfy { $0 == UInt8(ascii: "~") } ? "~" + subject : subject
    }

    package var capacity: Int
    private var current: Set<Int> = []
    /// Those of the span before who were not seen since.
    private var former: Set<Int> = []
    private var turn = Instant(nanoseconds: .min)

    package init(capacity: Int) {
        self.capacity = capacity
    }

    package var count: Int { current.count + former.count }

    /// How many are known at `now`: also when nobody asks, subjects are forgotten.
    /// - Parameter window: as of `takeIn`.
    package func count(windowMilliseconds window: Int64, now: Instant) -> Int {
        guard turn <= now else { return count }
        return turn.advanced(byMilliseconds: window) <= now ? 0 : current.count
    }

    /// Takes a subject in, if there is a place. `false`: there is none.
    /// - Parameter window: within which each limit forgets, in milliseconds.
    package mutating func takeIn(_ subject: String, windowMilliseconds window: Int64, now: Instant) -> Bool {
        if turn <= now {
            // Who was not seen for a whole window more is forgotten as well.
            former = turn.advanced(byMilliseconds: window) <= now ? [] : current
            current = []
            turn = now.advanced(byMilliseconds: window)
        }
        let digest = ExactText(subject).hashValue
        if current.contains(digest) { return true }
        guard former.remove(digest) != nil || count < capacity else { return false }
        current.insert(digest)
        return true
    }

    /// Whether `takeIn` would find a place for it.
    package func hasPlace(for subject: String) -> Bool {
        guard count >= capacity else { return true }
        let digest = ExactText(subject).hashValue
        return current.contains(digest) || former.contains(digest)
    }
}

/// How many of those who wait each subject has: a quarter of the places at most, for others wait there too.
struct SubjectTally: Sendable {
    /// One subject's calls take this part of the places.
    static let share = 4

    private var counts: [ExactText: Int] = [:]

    /// Whether one more of this subject may wait where there are so many places. `nil`: it has none, and no bound of its own.
    func hasRoom(for subject: String?, of capacity: Int) -> Bool {
        guard let subject, let own = counts[ExactText(subject)] else { return true }
        return own < max(1, capacity / Self.share)
    }

    mutating func add(_ subject: String?) {
        if let subject { counts[ExactText(subject), default: 0] += 1 }
    }

    mutating func remove(_ subject: String?) {
        guard let subject = subject.map(ExactText.init), let own = counts[subject] else { return }
        counts[subject] = own > 1 ? own - 1 : nil
    }
}

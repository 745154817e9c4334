internal import DequeModule

/// Waiting calls with their deadlines, up to `capacity`. The queue is ordered by the calls' numbers, which rise in
/// order of arrival, so that a call that returns gets its former position.
struct WaitingQueue: Sendable {
    struct Entry: Sendable {
        var number: UInt64
        var deadline: Instant
        /// The earliest time at which the call may be made.
        var earliest: Instant
        var subject: String?
        /// Whether the call has waited before, which exempts it from its subject's limit.
        var hasWaited = false
    }

    var capacity: Int
    private var entries: Deque<Entry> = []
    private var subjects = SubjectTally()

    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }
    var first: Entry? { entries.first }

    /// Inserts a call. Returns `false` if the queue or the subject's part of the queue is full. O(1) for a newcomer.
    mutating func insert(_ entry: Entry) -> Bool {
        guard entries.count < capacity, entry.hasWaited || subjects.hasCapacity(for: entry.subject, of: capacity) else {
            return false
        }
        subjects.add(entry.subject)
        var index = entries.count
        while index > 0, entries[index - 1].number > entry.number { index -= 1 }
        entries.insert(entry, at: index)
        return true
    }

    mutating func removeFirst() {
        subjects.remove(entries.removeFirst().subject)
    }

    /// Removes a call. Returns `false` if it is not in the queue. O(n).
    mutating func remove(_ number: UInt64) -> Bool {
        guard let index = entries.firstIndex(where: { $0.number == number }) else { return false }
        subjects.remove(entries.remove(at: index).subject)
        return true
    }

    /// Removes the calls that `shouldRemove` selects, and returns them in order. O(n).
    mutating func removeAll(where shouldRemove: (Entry) -> Bool) -> [Entry] {
        guard entries.contains(where: shouldRemove) else { return [] }
        let removed = entries.filter(shouldRemove)
        entries.removeAll(where: shouldRemove)
        for entry in removed { subjects.remove(entry.subject) }
        return Array(removed)
    }

    /// The earliest deadline. O(n).
    var nextDeadline: Instant? { entries.lazy.map(\.deadline).min() }

    /// The earliest time at which a call may be made. O(n).
    var earliest: Instant? { entries.lazy.map(\.earliest).min() }
}

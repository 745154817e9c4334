internal import DequeModule

/// Calls that wait, each with the time at which it gives up. They stand in the order of their numbers, which rise with their
/// arrival: one that was sent and comes back stands where it stood before. Bounded.
struct WaitingLine: Sendable {
    struct Entry: Sendable {
        var number: UInt64
        var deadline: Instant
        /// It is not to be called before.
        var earliest: Instant
        var subject: String?
        /// It has waited before: its subject's part of the places does not keep it out.
        var isBack = false
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

    /// O(1) for a newcomer. `false`: the line is full, or its subject's part of it.
    mutating func insert(_ entry: Entry) -> Bool {
        guard entries.count < capacity, entry.isBack || subjects.hasRoom(for: entry.subject, of: capacity) else { return false }
        subjects.add(entry.subject)
        var place = entries.count
        while place > 0, entries[place - 1].number > entry.number { place -= 1 }
        entries.insert(entry, at: place)
        return true
    }

    mutating func removeFirst() {
        subjects.remove(entries.removeFirst().subject)
    }

    /// `false`: it does not stand here. O(n).
    mutating func remove(_ number: UInt64) -> Bool {
        guard let place = entries.firstIndex(where: { $0.number == number }) else { return false }
        subjects.remove(entries.remove(at: place).subject)
        return true
    }

    /// Takes those out that `isChosen` says, and returns them in order. O(n).
    mutating func removeAll(where isChosen: (Entry) -> Bool) -> [Entry] {
        guard entries.contains(where: isChosen) else { return [] }
        let chosen = entries.filter(isChosen)
        entries.removeAll(where: isChosen)
        for entry in chosen { subjects.remove(entry.subject) }
        return Array(chosen)
    }

    /// When the first of them gives up. O(n).
    var nextDeadline: Instant? { entries.lazy.map(\.deadline).min() }

    /// When the first of them may be called. O(n).
    var earliest: Instant? { entries.lazy.map(\.earliest).min() }
}

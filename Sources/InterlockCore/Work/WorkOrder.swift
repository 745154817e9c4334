internal import DequeModule

/// Which pieces of work may begin: each after those that it depends on, so many at a time, and otherwise in the order in which
/// they were added. It knows only work that has not ended; so there can be no cycle, and what it keeps is bounded.
package struct WorkOrder: Sendable {
    /// What a piece of work is doing.
    package enum Stage: Equatable, Sendable {
        /// Others that it comes after have not ended.
        case waiting
        /// It could begin, if a place is free.
        case ready
        /// It was handed out by `takeNext` and has not ended.
        case started
    }

    /// What a change leads to.
    package struct Effects: Equatable, Sendable {
        /// Everything that these waited for has succeeded.
        package var ready: [UInt64] = []
        /// These are cancelled before they began, each after the one that it depends on.
        package var cancelled: [Cancellation] = []

        package init(ready: [UInt64] = [], cancelled: [Cancellation] = []) {
            self.ready = ready
            self.cancelled = cancelled
        }
    }

    package struct Cancellation: Equatable, Sendable {
        package var id: UInt64
        /// What it came after, that failed or was cancelled; `nil`: it was itself cancelled.
        package var cause: UInt64?

        package init(id: UInt64, cause: UInt64?) {
            self.id = id
            self.cause = cause
        }
    }

    private struct Entry: Sendable {
        var stage: Stage
        /// Those that it depends on and that have not ended.
        var outstanding: Set<UInt64>
        /// Those that depend on it, in the order in which they were added.
        var dependents: [UInt64] = []
    }

    package let maximumStarted: Int
    /// The most that may be known at a time.
    package let capacity: Int
    /// Nothing is handed out before.
    package var isRunning = false
    package private(set) var startedCount = 0
    private var entries: [UInt64: Entry] = [:]
    /// Those that are ready; some may have been cancelled since.
    private var line: Deque<UInt64> = []
    private var lastID: UInt64 = 0

    /// - Precondition: both are 1 or more.
    package init(maximumStarted: Int, capacity: Int) {
        precondition(maximumStarted > 0 && capacity > 0, "work needs a place to run and a place to wait")
        self.maximumStarted = maximumStarted
        self.capacity = capacity
    }

    package var count: Int { entries.count }
    package var isFull: Bool { entries.count >= capacity }

    /// `nil`: it has ended, or never was.
    package func stage(of id: UInt64) -> Stage? { entries[id]?.stage }

    /// Adds work that comes after `dependencies`; those among them that have ended must have succeeded.
    /// - Returns: its ID; `nil`: there is too much.
    package mutating func add(after dependencies: [UInt64]) -> UInt64? {
        guard !isFull else { return nil }
        lastID += 1
        let id = lastID
        let outstanding = Set(dependencies.filter { entries[$0] != nil })
        for dependency in outstanding { entries[dependency]?.dependents.append(id) }
        entries[id] = Entry(stage: outstanding.isEmpty ? .ready : .waiting, outstanding: outstanding)
        if outstanding.isEmpty { line.append(id) }
        return id
    }

    /// The next to begin; `nil`: none may now.
    package mutating func takeNext() -> UInt64? {
        guard isRunning else { return nil }
        while startedCount < maximumStarted, let id = line.popFirst() {
            guard entries[id]?.stage == .ready else { continue }
            entries[id]?.stage = .started
            startedCount += 1
            return id
        }
        return nil
    }

    /// Started work has ended. When it did not succeed, everything that comes after it is cancelled. O(n) in those.
    package mutating func ended(_ id: UInt64, succeeded: Bool) -> Effects {
        guard entries[id]?.stage == .started, let entry = entries.removeValue(forKey: id) else { return Effects() }
        startedCount -= 1
        var effects = Effects()
        guard succeeded else {
            cancelDependents(of: id, entry, into: &effects)
            return effects
        }
        for dependent in entry.dependents {
            entries[dependent]?.outstanding.remove(id)
            guard entries[dependent]?.outstanding.isEmpty == true else { continue }
            entries[dependent]?.stage = .ready
            line.append(dependent)
            effects.ready.append(dependent)
        }
        return effects
    }

    /// Cancels work that has not begun, and all that comes after it. Work that has begun is the caller's to cancel.
    package mutating func cancel(_ id: UInt64) -> Effects {
        var effects = Effects()
        guard stage(of: id) != .started, let entry = forget(id) else { return effects }
        effects.cancelled.append(Cancellation(id: id, cause: nil))
        cancelDependents(of: id, entry, into: &effects)
        if line.count > 64, line.count > 2 * entries.count { line.removeAll { entries[$0] == nil } }
        return effects
    }

    /// All that is known, in the order in which it was added. O(n log n).
    package var all: [UInt64] { entries.keys.sorted() }

    private mutating func cancelDependents(of id: UInt64, _ entry: Entry, into effects: inout Effects) {
        var causes = Deque([(id, entry.dependents)])
        while let (cause, dependents) = causes.popFirst() {
            for dependent in dependents {
                guard let entry = forget(dependent) else { continue }
                effects.cancelled.append(Cancellation(id: dependent, cause: cause))
                causes.append((dependent, entry.dependents))
            }
        }
    }

    /// Takes work out that others need not tell of their end. O(n) in what else comes after the same.
    private mutating func forget(_ id: UInt64) -> Entry? {
        guard let entry = entries.removeValue(forKey: id) else { return nil }
        for dependency in entry.outstanding { entries[dependency]?.dependents.removeAll { $0 == id } }
        return entry
    }
}

internal import DequeModule

/// Schedules pieces of work: each begins after its dependencies, a limited number run concurrently, and otherwise they
/// run in the order in which they were added. Only unfinished work is known, so there can be no cycle, and memory is
/// bounded.
package struct WorkOrder: Sendable {
    /// The stage of a piece of work.
    package enum Stage: Equatable, Sendable {
        /// Some of its dependencies have not ended.
        case waiting
        /// Ready to begin as soon as a slot is free.
        case ready
        /// Handed out by `takeNext` and not ended.
        case started
    }

    /// The effects of a change.
    package struct Effects: Equatable, Sendable {
        /// The work whose last dependency has succeeded.
        package var ready: [UInt64] = []
        /// The work cancelled before it began, each piece after the one that it depends on.
        package var cancelled: [Cancellation] = []

        package init(ready: [UInt64] = [], cancelled: [Cancellation] = []) {
            self.ready = ready
            self.cancelled = cancelled
        }
    }

    package struct Cancellation: Equatable, Sendable {
        package var id: UInt64
        /// The dependency that failed or was cancelled; `nil` if the work was cancelled directly.
        package var cause: UInt64?

        package init(id: UInt64, cause: UInt64?) {
            self.id = id
            self.cause = cause
        }
    }

    private struct Entry: Sendable {
        var stage: Stage
        /// The dependencies that have not ended.
        var outstanding: Set<UInt64>
        /// The work that depends on it, in order of addition.
        var dependents: [UInt64] = []
    }

    package let maximumStarted: Int
    /// The maximum number of unfinished pieces of work.
    package let capacity: Int
    /// Whether work is handed out.
    package var isRunning = false
    package private(set) var startedCount = 0
    private var entries: [UInt64: Entry] = [:]
    /// The ready work; some of it may have been cancelled since.
    private var readyQueue: Deque<UInt64> = []
    private var lastID: UInt64 = 0

    /// - Precondition: both are 1 or more.
    package init(maximumStarted: Int, capacity: Int) {
        precondition(maximumStarted > 0 && capacity > 0, "maximumStarted and capacity must be 1 or more")
        self.maximumStarted = maximumStarted
        self.capacity = capacity
    }

    package var count: Int { entries.count }
    package var isFull: Bool { entries.count >= capacity }

    /// Returns the stage; `nil` if the work has ended or never existed.
    package func stage(of id: UInt64) -> Stage? { entries[id]?.stage }

    /// Adds work that comes after `dependencies`. Any of them that has ended must have succeeded.
    /// - Returns: the ID of the work; `nil` if `capacity` is reached.
    package mutating func add(after dependencies: [UInt64]) -> UInt64? {
        guard !isFull else { return nil }
        lastID += 1
        let id = lastID
        let outstanding = Set(dependencies.filter { entries[$0] != nil })
        for dependency in outstanding { entries[dependency]?.dependents.append(id) }
        entries[id] = Entry(stage: outstanding.isEmpty ? .ready : .waiting, outstanding: outstanding)
        if outstanding.isEmpty { readyQueue.append(id) }
        return id
    }

    /// Starts the next piece of work; returns `nil` if none may begin now.
    package mutating func takeNext() -> UInt64? {
        guard isRunning else { return nil }
        while startedCount < maximumStarted, let id = readyQueue.popFirst() {
            guard entries[id]?.stage == .ready else { continue }
            entries[id]?.stage = .started
            startedCount += 1
            return id
        }
        return nil
    }

    /// Ends started work. If it failed, all work that depends on it is cancelled. O(n) in that work.
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
            readyQueue.append(dependent)
            effects.ready.append(dependent)
        }
        return effects
    }

    /// Cancels work that has not begun and everything that depends on it. The caller cancels work that has begun.
    package mutating func cancel(_ id: UInt64) -> Effects {
        var effects = Effects()
        guard stage(of: id) != .started, let entry = forget(id) else { return effects }
        effects.cancelled.append(Cancellation(id: id, cause: nil))
        cancelDependents(of: id, entry, into: &effects)
        if readyQueue.count > 64, readyQueue.count > 2 * entries.count { readyQueue.removeAll { entries[$0] == nil } }
        return effects
    }

    /// All known work in order of addition. O(n log n).
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

    /// Removes work and takes it off its dependencies' lists. O(n) in the other work on those lists.
    private mutating func forget(_ id: UInt64) -> Entry? {
        guard let entry = entries.removeValue(forKey: id) else { return nil }
        for dependency in entry.outstanding { entries[dependency]?.dependents.removeAll { $0 == id } }
        return entry
    }
}

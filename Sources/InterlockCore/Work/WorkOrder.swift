internal import DequeModule

/// Schedules pieces of work. Each piece begins after its dependencies, and a limited number run concurrently. Ready
/// work begins in order. The schedule knows only unfinished work, so there can be no cycle, and memory is bounded.
package struct WorkOrder: Sendable {
    /// The stage of a piece of work.
    package enum Stage: Equatable, Sendable {
        /// Some of its dependencies are unfinished.
        case waiting
        /// Ready to begin as soon as a slot is free.
        case ready
        /// Started by `takeNext`, and unfinished.
        case started
    }

    /// The effects of a change.
    package struct Effects: Equatable, Sendable {
        /// The work that became ready because its last dependency succeeded.
        package var ready: [UInt64] = []
        /// The work that was cancelled before it began, each piece after the piece that caused its cancellation.
        package var cancelled: [Cancellation] = []

        package init(ready: [UInt64] = [], cancelled: [Cancellation] = []) {
            self.ready = ready
            self.cancelled = cancelled
        }
    }

    /// A piece of work that was cancelled before it began.
    package struct Cancellation: Equatable, Sendable {
        package var id: UInt64
        /// The ID of the dependency that failed or was cancelled; `nil` if the work was cancelled directly.
        package var cause: UInt64?

        package init(id: UInt64, cause: UInt64?) {
            self.id = id
            self.cause = cause
        }
    }

    private struct Entry: Sendable {
        var stage: Stage
        /// The IDs of the unfinished dependencies.
        var outstandingIDs: Set<UInt64>
        /// The IDs of the work that depends on this entry, in order of addition.
        var dependentIDs: [UInt64] = []
    }

    /// The maximum number of pieces of work that run concurrently.
    package let maximumStarted: Int
    /// The maximum number of unfinished pieces of work.
    package let capacity: Int
    /// Whether `takeNext` starts work.
    package var isRunning = false
    package private(set) var startedCount = 0
    private var entries: [UInt64: Entry] = [:]
    /// The IDs of the ready work; some of it may have been cancelled since.
    private var readyQueue: Deque<UInt64> = []
    private var lastID: UInt64 = 0

    /// Creates a schedule without work.
    /// - Precondition: `maximumStarted` and `capacity` are 1 or more.
    package init(maximumStarted: Int, capacity: Int) {
        precondition(maximumStarted > 0 && capacity > 0, "maximumStarted and capacity must be 1 or more")
        self.maximumStarted = maximumStarted
        self.capacity = capacity
    }

    package var count: Int { entries.count }
    package var isFull: Bool { entries.count >= capacity }

    /// Returns the stage of a piece of work; `nil` if the work is finished or never existed.
    package func stage(of id: UInt64) -> Stage? { entries[id]?.stage }

    /// Adds work that begins after `dependencies`. A finished dependency must have succeeded.
    /// - Returns: the ID of the work; `nil` if the schedule is full.
    package mutating func add(after dependencies: [UInt64]) -> UInt64? {
        guard !isFull else { return nil }
        lastID += 1
        let id = lastID
        let outstandingIDs = Set(dependencies.filter { entries[$0] != nil })
        for dependency in outstandingIDs { entries[dependency]?.dependentIDs.append(id) }
        entries[id] = Entry(stage: outstandingIDs.isEmpty ? .ready : .waiting, outstandingIDs: outstandingIDs)
        if outstandingIDs.isEmpty { readyQueue.append(id) }
        return id
    }

    /// Starts the next piece of work.
    /// - Returns: the ID of the work; `nil` if no work may begin now.
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

    /// Records that started work succeeded or failed. A failure cancels all work that depends on it. O(n) in that work.
    package mutating func workEnded(_ id: UInt64, succeeded: Bool) -> Effects {
        guard entries[id]?.stage == .started, let entry = entries.removeValue(forKey: id) else { return Effects() }
        startedCount -= 1
        var effects = Effects()
        guard succeeded else {
            cancelDependents(of: id, entry, into: &effects)
            return effects
        }
        for dependent in entry.dependentIDs {
            entries[dependent]?.outstandingIDs.remove(id)
            guard entries[dependent]?.outstandingIDs.isEmpty == true else { continue }
            entries[dependent]?.stage = .ready
            readyQueue.append(dependent)
            effects.ready.append(dependent)
        }
        return effects
    }

    /// Cancels work that has not begun, and all work that depends on it. Does nothing to work that has begun; the
    /// caller cancels that.
    package mutating func cancel(_ id: UInt64) -> Effects {
        var effects = Effects()
        guard stage(of: id) != .started, let entry = forget(id) else { return effects }
        effects.cancelled.append(Cancellation(id: id, cause: nil))
        cancelDependents(of: id, entry, into: &effects)
        if readyQueue.count > 64, readyQueue.count > 2 * entries.count { readyQueue.removeAll { entries[$0] == nil } }
        return effects
    }

    /// The IDs of all unfinished work, in order of addition. O(n log n).
    package var all: [UInt64] { entries.keys.sorted() }

    private mutating func cancelDependents(of id: UInt64, _ entry: Entry, into effects: inout Effects) {
        var causes = Deque([(id, entry.dependentIDs)])
        while let (cause, dependents) = causes.popFirst() {
            for dependent in dependents {
                guard let entry = forget(dependent) else { continue }
                effects.cancelled.append(Cancellation(id: dependent, cause: cause))
                causes.append((dependent, entry.dependentIDs))
            }
        }
    }

    /// Removes work, also from the lists of its dependencies. O(n) in the length of these lists.
    private mutating func forget(_ id: UInt64) -> Entry? {
        guard let entry = entries.removeValue(forKey: id) else { return nil }
        for dependency in entry.outstandingIDs { entries[dependency]?.dependentIDs.removeAll { $0 == id } }
        return entry
    }
}

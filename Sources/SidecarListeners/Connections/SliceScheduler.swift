internal import DequeModule
package import Interlock
internal import InterlockCore
package import NIOCore

/// Divides the event loop's time among the connections of all listeners, by a `TickBudget`. Confined to the loop.
///
/// A connection that used up its last slice waits behind those that did not, so an occasional client never waits behind
/// a hundred busy ones. Among waiting connections, API keys take turns, as do the connections of one key; all
/// connections without a key count as one key. Each tick runs at least one slice of a busy connection, and one for each
/// of the first few keys among the others, so none starves.
package final class SliceScheduler {
    /// The pause between two ticks if work is left. A pause of any length lets the loop read its sockets.
    private static let pause = TimeAmount.microseconds(10)
    /// The maximum number of keys that get a slice in each tick, even if its budget is spent.
    private static let keysPerTick = 4
    /// The maximum number of reads that begin in one tick, whatever its budget. Deferring a read costs two more system
    /// calls.
    private static let readsPerTick = 50
    /// The number of reads after which the end of the tick is scheduled, which resets their count.
    private static let negligibleReads = 8
    /// The time spent in a tick below which its end is not scheduled: scheduling would cost more than it saves.
    private static let negligibleNanoseconds: Int64 = 100_000

    let eventLoop: any EventLoop
    private let nowNanoseconds: () -> Int64
    private var budget = TickBudget()
    /// The waiting connections that did not use up their last slice, by API key.
    private var light = RoundRobinQueue<String, ConnectionSlices>()
    /// The waiting connections that used up their last slice, by API key.
    private var heavy = RoundRobinQueue<String, ConnectionSlices>()
    /// The connection whose slice is running.
    private(set) var current: ConnectionSlices?
    private var isTickScheduled = false
    /// The number of reads that began in this tick.
    private var readCount = 0
    /// Whether no work has begun in the current slice.
    private var isSliceFresh = false

    /// Creates a scheduler with this clock.
    /// - Parameter clock: returns the time of a monotonic clock that advances while work is done, in nanoseconds.
    package init(eventLoop: any EventLoop, clock: @escaping () -> Int64) {
        self.eventLoop = eventLoop
        nowNanoseconds = clock
    }

    /// Creates a scheduler for a coordinator's event loop, with its clock.
    package convenience init(of coordinator: Coordinator) {
        let eventLoop = coordinator.eventLoop
        self.init(eventLoop: eventLoop) { eventLoop.uptimeNanoseconds }
    }

    /// Creates the instance that a coordinator's listeners share, on its event loop.
    package static func shared(by coordinator: Coordinator) async throws -> NIOLoopBound<SliceScheduler> {
        let eventLoop = coordinator.eventLoop
        return try await eventLoop.submit { NIOLoopBound(SliceScheduler(of: coordinator), eventLoop: eventLoop) }.get()
    }

    /// Begins a slice of this connection. Returns `false` if it must wait for another tick.
    func begin(_ slices: ConnectionSlices) -> Bool {
        if let current {
            if current === slices { return true }
            // The slice was left open because its connection closed within it.
            end(current)
        }
        guard mayRunNow(slices) else { return false }
        current = slices
        budget.begin(nowNanoseconds: nowNanoseconds())
        isSliceFresh = true
        return true
    }

    /// Returns whether the connection's slice has time left.
    func mayContinue(_ slices: ConnectionSlices) -> Bool {
        current === slices && budget.mayContinue(nowNanoseconds: nowNanoseconds())
    }

    /// Returns whether the slice may begin another piece of work, and begins it. The first piece of a slice always may.
    func beginWork(_ slices: ConnectionSlices) -> Bool {
        guard isSliceFresh, current === slices else { return mayContinue(slices) }
        isSliceFresh = false
        return true
    }

    /// Ends the connection's slice. A client that used up its time is busy, and queues behind the others.
    func end(_ slices: ConnectionSlices) {
        guard current === slices else { return }
        slices.beforeEnd?()
        current = nil
        // A busy client stays busy if its slice ended early because the tick did.
        slices.isHeavy = budget.end(nowNanoseconds: nowNanoseconds()) || slices.isHeavy && slices.hasPendingWork
        scheduleTickIfSpent()
    }

    /// Charges time that was spent outside of slices to this tick.
    func charge(_ nanoseconds: Int64) {
        budget.charge(nanoseconds)
        scheduleTickIfSpent()
    }

    /// Returns whether the connection may run now: there is time, it is not busy, and no other connection of its client
    /// is waiting.
    func mayRunNow(_ slices: ConnectionSlices) -> Bool {
        budget.hasTimeLeft && !slices.isHeavy && (light.isEmpty || !light.isWaiting(slices.clientName))
    }

    /// Returns whether a read may begin now, and counts it.
    func beginRead() -> Bool {
        guard readCount < Self.readsPerTick else { return false }
        readCount += 1
        if readCount == Self.negligibleReads { scheduleTick() }
        return true
    }

    private func scheduleTickIfSpent() { if budget.spentNanoseconds >= Self.negligibleNanoseconds { scheduleTick() } }

    /// Queues the connection for a slice in another tick.
    func wait(_ slices: ConnectionSlices) {
        if slices.isHeavy { heavy.append(slices, of: slices.clientName) } else { light.append(slices, of: slices.clientName) }
        scheduleTick()
    }

    private func scheduleTick() {
        guard !isTickScheduled else { return }
        isTickScheduled = true
        eventLoop.assumeIsolated().execute { [self] in endTick() }
    }

    /// Ends a tick, after all its reads: runs waiting connections while there is time.
    private func endTick() {
        if let current { end(current) }
        var hasRunHeavy = false
        // These slices run even if the budget is spent.
        var guaranteedSlices = min(light.keyCount, Self.keysPerTick)
        while budget.hasTimeLeft || guaranteedSlices > 0, let slices = light.popFirst() {
            guaranteedSlices -= 1
            run(slices)
        }
        while budget.hasTimeLeft || !hasRunHeavy, let slices = heavy.popFirst() {
            hasRunHeavy = true
            run(slices)
        }
        budget.tickEnded()
        readCount = 0
        isTickScheduled = !light.isEmpty || !heavy.isEmpty
        if isTickScheduled { scheduleNextTick() }
    }

    /// Schedules the next tick after a pause. The loop reads its sockets only when no task is due, so the pause must
    /// begin after the remaining work of this tick. That work, such as the ends of streams or a thousand replies, may
    /// take longer than the pause, so this waits until a task runs without delay, for at most `hops` tasks.
    private func scheduleNextTick(hops: Int = 8) {
        let scheduledAtNanoseconds = nowNanoseconds()
        let eventLoop = eventLoop.assumeIsolated()
        eventLoop.execute { [self] in
            guard hops > 0, nowNanoseconds() - scheduledAtNanoseconds > Self.pause.nanoseconds else {
                eventLoop.scheduleTask(in: Self.pause) { [self] in endTick() }
                return
            }
            scheduleNextTick(hops: hops - 1)
        }
    }

    private func run(_ slices: ConnectionSlices) {
        current = slices
        budget.begin(nowNanoseconds: nowNanoseconds())
        isSliceFresh = false
        slices.runPending()
    }
}

/// A queue of members by key. Keys take turns, as do the members of one key, in order of arrival.
struct RoundRobinQueue<Key: Hashable, Member> {
    private var members: [Key: Deque<Member>] = [:]
    /// Each key with a waiting member, once.
    private var keys: Deque<Key> = []

    var isEmpty: Bool { keys.isEmpty }
    /// The number of keys with a waiting member.
    var keyCount: Int { keys.count }

    func isWaiting(_ key: Key) -> Bool { members[key] != nil }

    mutating func append(_ member: Member, of key: Key) {
        if members[key] == nil { keys.append(key) }
        members[key, default: []].append(member)
    }

    mutating func popFirst() -> Member? {
        guard let key = keys.popFirst(), let member = members[key]?.popFirst() else { return nil }
        if members[key]?.isEmpty ?? true { members[key] = nil } else { keys.append(key) }
        return member
    }
}

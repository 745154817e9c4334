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
package final class ClientTurns {
    /// The pause between two ticks with work left. Any length lets the loop read its sockets.
    private static let pause = TimeAmount.microseconds(10)
    /// The most keys that get a slice in each tick, even if its budget is spent.
    private static let partiesPerTick = 4
    /// The most reads that begin in one tick, whatever its budget. Deferring a read costs two more system calls.
    private static let readsPerTick = 50
    /// The number of reads after which the end of the tick is scheduled, which resets their count.
    private static let negligibleReads = 8
    /// The time spent, in nanoseconds, below which the end of the tick is not scheduled: that would cost more than it
    /// limits.
    private static let negligible: Int64 = 100_000

    let eventLoop: any EventLoop
    private let clock: () -> Int64
    private var budget = TickBudget()
    private var light = TurnLine<String, ClientTurn>()
    private var heavy = TurnLine<String, ClientTurn>()
    private(set) var current: ClientTurn?
    private var isPlanned = false
    private var reads = 0
    /// Whether no work has begun in the current slice.
    private var isFresh = false

    /// - Parameter clock: a monotonic clock that advances while work is done, in nanoseconds.
    package init(eventLoop: any EventLoop, clock: @escaping () -> Int64) {
        self.eventLoop = eventLoop
        self.clock = clock
    }

    /// Uses the event loop's clock.
    package convenience init(of coordinator: Coordinator) {
        let eventLoop = coordinator.eventLoop
        self.init(eventLoop: eventLoop) { eventLoop.uptime }
    }

    /// Creates the instance that a coordinator's listeners share, on its event loop.
    package static func shared(by coordinator: Coordinator) async throws -> NIOLoopBound<ClientTurns> {
        let eventLoop = coordinator.eventLoop
        return try await eventLoop.submit { NIOLoopBound(ClientTurns(of: coordinator), eventLoop: eventLoop) }.get()
    }

    func begin(_ turn: ClientTurn) -> Bool {
        if let current {
            if current === turn { return true }
            // The slice was left open because its connection closed within it.
            end(current)
        }
        guard mayGoFirst(turn) else { return false }
        current = turn
        budget.begin(now: clock())
        isFresh = true
        return true
    }

    func mayGoOn(_ turn: ClientTurn) -> Bool { current === turn && budget.mayGoOn(now: clock()) }

    func mayBeginWork(_ turn: ClientTurn) -> Bool {
        guard isFresh, current === turn else { return mayGoOn(turn) }
        isFresh = false
        return true
    }

    func end(_ turn: ClientTurn) {
        guard current === turn else { return }
        turn.beforeEnd?()
        current = nil
        // A busy client stays busy if its slice ended early because the tick did.
        turn.isHeavy = budget.end(now: clock()) || turn.isHeavy && turn.hasWorkLeft
        planTickIfSpent()
    }

    func charge(_ nanoseconds: Int64) {
        budget.charge(nanoseconds)
        planTickIfSpent()
    }

    /// Whether the connection may run now: there is time, it is not busy, and no connection of its party is waiting.
    func mayGoFirst(_ turn: ClientTurn) -> Bool {
        budget.hasRoom && !turn.isHeavy && (light.isEmpty || !light.isWaiting(turn.party))
    }

    /// Returns whether a read may begin now, and counts it.
    func mayRead() -> Bool {
        guard reads < Self.readsPerTick else { return false }
        reads += 1
        if reads == Self.negligibleReads { planTick() }
        return true
    }

    private func planTickIfSpent() { if budget.spent >= Self.negligible { planTick() } }

    func wait(_ turn: ClientTurn) {
        if turn.isHeavy { heavy.append(turn, of: turn.party) } else { light.append(turn, of: turn.party) }
        planTick()
    }

    private func planTick() {
        guard !isPlanned else { return }
        isPlanned = true
        eventLoop.assumeIsolated().execute { [self] in endTick() }
    }

    /// Runs after all reads of the tick; waiting connections go on while there is time.
    private func endTick() {
        if let current { end(current) }
        var hasRunHeavy = false
        var owed = min(light.partyCount, Self.partiesPerTick)
        while budget.hasRoom || owed > 0, let turn = light.popFirst() {
            owed -= 1
            run(turn)
        }
        while budget.hasRoom || !hasRunHeavy, let turn = heavy.popFirst() {
            hasRunHeavy = true
            run(turn)
        }
        budget.tickEnded()
        reads = 0
        isPlanned = !light.isEmpty || !heavy.isEmpty
        if isPlanned { planNextTick() }
    }

    /// Schedules the next tick. The loop reads its sockets when no task is due, so the pause must begin after the
    /// remaining work of this tick and its consequences, such as the ends of streams or a thousand replies, which
    /// outlast the pause.
    private func planNextTick(hops: Int = 8) {
        let planned = clock()
        let eventLoop = eventLoop.assumeIsolated()
        eventLoop.execute { [self] in
            guard hops > 0, clock() - planned > Self.pause.nanoseconds else {
                eventLoop.scheduleTask(in: Self.pause) { [self] in endTick() }
                return
            }
            planNextTick(hops: hops - 1)
        }
    }

    private func run(_ turn: ClientTurn) {
        current = turn
        budget.begin(now: clock())
        isFresh = false
        turn.goOn()
    }
}

/// A queue of members by party. Parties take turns, as do the members of one party, in order of arrival.
struct TurnLine<Party: Hashable, Member> {
    private var members: [Party: Deque<Member>] = [:]
    /// Each party with a waiting member, once.
    private var parties: Deque<Party> = []

    var isEmpty: Bool { parties.isEmpty }
    /// The number of parties with a waiting member.
    var partyCount: Int { parties.count }

    func isWaiting(_ party: Party) -> Bool { members[party] != nil }

    mutating func append(_ member: Member, of party: Party) {
        if members[party] == nil { parties.append(party) }
        members[party, default: []].append(member)
    }

    mutating func popFirst() -> Member? {
        guard let party = parties.popFirst(), let member = members[party]?.popFirst() else { return nil }
        if members[party]?.isEmpty ?? true { members[party] = nil } else { parties.append(party) }
        return member
    }
}

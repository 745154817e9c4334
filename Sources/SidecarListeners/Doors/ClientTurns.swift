internal import DequeModule
package import Interlock
internal import InterlockCore
package import NIOCore

/// Shares the event loop's time among the connections of all listeners, by a `TickBudget`. Confined to the loop.
///
/// A connection that used up its last slice waits behind those that did not, so an occasional client never waits behind a hundred
/// busy ones. Among those that wait, API keys take turns, and so do the connections of one key; all connections that have shown
/// no key count as one key. Each tick runs at least one slice of a busy connection, and one for each of the first few keys among
/// the others, so nobody waits forever.
package final class ClientTurns {
    /// Between two ticks with work left: any time at all lets the loop read its sockets.
    private static let pause = TimeAmount.microseconds(10)
    /// The keys that have a slice in each tick, whatever it has spent.
    private static let partiesPerTick = 4
    /// The reads that begin in one tick, whatever it has spent. To begin one later costs two calls to the system more.
    private static let readsPerTick = 50
    /// After so many reads the end of the tick is planned: it counts anew.
    private static let negligibleReads = 8
    /// With less than this spent, the end of the tick goes unnoticed: planning it would cost more than it limits.
    private static let negligible: Int64 = 100_000

    let eventLoop: any EventLoop
    private let clock: () -> Int64
    private var budget = TickBudget()
    private var light = TurnLine<String, ClientTurn>()
    private var heavy = TurnLine<String, ClientTurn>()
    private(set) var current: ClientTurn?
    private var isPlanned = false
    private var reads = 0
    /// No work has begun in the present slice.
    private var isFresh = false

    /// - Parameter clock: a monotonic clock that advances while work is done, in nanoseconds.
    package init(eventLoop: any EventLoop, clock: @escaping () -> Int64) {
        self.eventLoop = eventLoop
        self.clock = clock
    }

    /// Measures by the event loop's clock.
    package convenience init(of coordinator: Coordinator) {
        let eventLoop = coordinator.eventLoop
        self.init(eventLoop: eventLoop) { eventLoop.uptime }
    }

    /// Makes one for the listeners of a coordinator, on its event loop.
    package static func shared(by coordinator: Coordinator) async throws -> NIOLoopBound<ClientTurns> {
        let eventLoop = coordinator.eventLoop
        return try await eventLoop.submit { NIOLoopBound(ClientTurns(of: coordinator), eventLoop: eventLoop) }.get()
    }

    func begin(_ turn: ClientTurn) -> Bool {
        if let current {
            if current === turn { return true }
            // The slice was left open: its connection closed within it.
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
        // A busy client whose slice ended early, because the tick did, is as busy as before.
        turn.isHeavy = budget.end(now: clock()) || turn.isHeavy && turn.hasWorkLeft
        planTickIfSpent()
    }

    func charge(_ nanoseconds: Int64) {
        budget.charge(nanoseconds)
        planTickIfSpent()
    }

    /// Whether there is time for a connection now, and nobody waits who comes first.
    func mayGoFirst(_ turn: ClientTurn) -> Bool {
        budget.hasRoom && !turn.isHeavy && (light.isEmpty || !light.isWaiting(turn.party))
    }

    /// Whether a read may begin now; it counts.
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

    /// Runs after all that the tick has read: whoever waits goes on while there is time.
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

    /// The loop reads its sockets when no task is due. So the pause begins behind all that the tick has left to do, with what
    /// comes of that: the ends of streams, for example, or a thousand replies, last longer than the pause.
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

/// Members that wait for their turn. Parties take turns, and so do the members of one party, in the order in which they came.
struct TurnLine<Party: Hashable, Member> {
    private var members: [Party: Deque<Member>] = [:]
    /// Each party that has a member waiting, once.
    private var parties: Deque<Party> = []

    var isEmpty: Bool { parties.isEmpty }
    /// The parties that have a member waiting.
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

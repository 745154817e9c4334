import Interlock
import InterlockCore
import InterlockJudge
import RedisClient

/// Acquires and holds locks in all modes, and ends leases as programs do: properly, late or never.
final class LockClient: ListenerClient {
    private struct HeldLease {
        /// The client number of the lease in the history.
        var number: Int
        var lock: Int
        var lease: LeaseID
        var mode: LeaseMode
        var token: String
        var fence: Int64
        var ttlMilliseconds: Int64
        var believedUntil: Instant
        var isLinked: Bool
        var hasOwner: Bool
    }

    private struct Request {
        var locks: [Int]
        var mode: LeaseMode
        var ttlMilliseconds: Int64
        var waitMilliseconds: Int64
        var owner: String?
        var isLinked: Bool
        var triesLeft: Int
        /// Whether no other call with this owner can be granted the lock.
        var isOnlyCall = true
        /// The fence of the owner's earlier lease, if a delayed copy of a call for that lease is sent later.
        var earlierFence: Int64?
    }

    /// The maximum number of locks per call.
    static let maximumLocks = 3

    /// The number of the fleet's first lock in the history.
    private let firstLock: Int
    private let kinds: [Profile.LockKind]
    private var ownerCount = 0
    private var held: [HeldLease] = []

    /// Creates a client of these kinds of locks.
    /// - Parameter firstLock: the number of the fleet's first lock in the history.
    init(
        world: WorldState, number: Int, sidecars: Range<Int>, random: SeededRandom, firstLock: Int, kinds: [Profile.LockKind],
        clientProtocol: ClientProtocol? = nil
    ) {
        self.firstLock = firstLock
        self.kinds = kinds
        super.init(world: world, number: number, sidecars: sidecars, random: random, clientProtocol: clientProtocol)
    }

    override func pauseThenAct() {
        guard let actionIntervalMilliseconds = world.profile.lockBehavior.actionIntervalMilliseconds else {
            return super.pauseThenAct()
        }
        // Acts at the next multiple, as precisely as the clocks of machines agree.
        let interval = Nanoseconds.milliseconds(actionIntervalMilliseconds)
        let untilNext = interval - world.timeline.now % interval
        schedule(after: untilNext + .microseconds(Int64.random(in: 0...500, using: &random))) { [self] in
            if !world.isClosing { act() }
        }
    }

    override func act() {
        if random.happens(0.03) { return sendQuery() }
        var lock = Int.random(in: kinds.indices, using: &random)
        // Half of all calls contend for the first lock.
        if random.happens(0.5) { lock = 0 }
        var request = Request(
            locks: [lock], mode: drawMode(of: lock), ttlMilliseconds: drawTTL(), waitMilliseconds: drawWait(),
            owner: nil, isLinked: false, triesLeft: 3)
        let isQuorum = world.profile.quorum > 0
        if !isQuorum, case .exclusive = kinds[lock], random.happens(0.15) {
            let others = kinds.indices.filter { if case .exclusive = kinds[$0] { $0 != lock } else { false } }
            request.locks += others.shuffled(using: &random).prefix(Self.maximumLocks - 1)
            request.ttlMilliseconds = max(request.ttlMilliseconds, 4000)
        }
        if random.happens(world.profile.lockBehavior.ownerProbability) {
            ownerCount += 1
            request.owner = "own-\(number)-\(ownerCount)"
        }
        request.isLinked = clientProtocol != .http && !isQuorum && random.happens(0.2)
        guard shouldPipeline() else { return acquire(request) }
        pipelined { acquire(request) }
    }

    private func drawMode(of lock: Int) -> LeaseMode {
        switch kinds[lock] {
        case .exclusive: .exclusive
        case .readersAndWriters: random.happens(world.profile.lockBehavior.writerProbability) ? .exclusive : .shared
        case .semaphore(let slots): .permits(slots)
        }
    }

    /// Draws a TTL, in milliseconds.
    private func drawTTL() -> Int64 {
        let point = random.unit()
        switch world.profile.lockBehavior.leases {
        case .mixed where point < 0.5, .short: return Int64.random(in: 300...1500, using: &random)
        case .mixed where point < 0.9: return Int64.random(in: 1500...6000, using: &random)
        case .mixed, .long: return Int64.random(in: 6000...20_000, using: &random)
        }
    }

    /// Draws a wait, in milliseconds; 0 if the call does not wait.
    private func drawWait() -> Int64 {
        guard random.happens(world.profile.lockBehavior.waitProbability) else { return 0 }
        let long = WorldState.recoveryMilliseconds + 500...WorldState.recoveryMilliseconds + 4000
        switch world.profile.lockBehavior.patience {
        case .short: return Int64.random(in: 20...800, using: &random)
        case .long: return Int64.random(in: long, using: &random)
        case .mixed:
            let point = random.unit()
            return Int64.random(in: point < 0.6 ? 20...800 : point < 0.85 ? 800...4000 : long, using: &random)
        }
    }

    // MARK: Acquire

    private func acquire(_ request: Request) {
        var arguments = ["LOCK.ACQUIRE", world.name(ofLock: request.locks[0]), "\(request.ttlMilliseconds)"]
        if request.waitMilliseconds > 0 { arguments += ["WAIT", "\(request.waitMilliseconds)"] }
        if let owner = request.owner { arguments += ["OWNER", owner] }
        if request.isLinked { arguments.append("LINKED") }
        switch request.mode {
        case .exclusive: break
        case .shared: arguments.append("SHARED")
        case .permits(let slots): arguments += ["PERMITS", "\(slots)"]
        }
        if request.locks.count > 1 {
            arguments += ["ALSO", "\(request.locks.count - 1)"] + request.locks.dropFirst().map(world.name(ofLock:))
        }
        let operations = request.locks.enumerated().map { index, lock in
            (
                number: number + index,
                operation: Operation.acquire(
                    lock: firstLock + lock, mode: request.mode, ttlMilliseconds: request.ttlMilliseconds,
                    waitMilliseconds: request.waitMilliseconds,
                    isJoint: request.locks.count > 1)
            )
        }
        let invokedAt = world.timeline.instant
        // Unsure programs send a call twice in a row. Both replies must be the same. Over HTTP, the second call begins
        // after the first.
        let canRepeat = clientProtocol != .http || request.waitMilliseconds == 0
        let isRepeated = canRepeat && request.owner != nil && request.locks.count == 1 && random.happens(0.1)
        if isRepeated { sendUnrecorded(arguments) { _ in } }
        if request.waitMilliseconds > 200, random.happens(world.profile.lockBehavior.leaveProbability) {
            // The client leaves soon, like programs with short timeouts, or at any time.
            let latestMilliseconds = random.happens(0.5) ? 100 : request.waitMilliseconds
            schedule(after: .milliseconds(Int64.random(in: 1...latestMilliseconds, using: &random))) { [self] in
                die(forMilliseconds: 0)
            }
        }
        var granted: [HeldLease] = []
        let endingOnClose = request.owner == nil ? OperationEnding.abandoned : OperationEnding.vanished
        perform(operations, arguments, endingOnClose: endingOnClose) { [self] reply in
            granted = leases(in: reply, request, invokedAt: invokedAt)
            guard granted.count == request.locks.count else {
                // If the owner's call acquired some locks before it failed, their leases expire.
                return request.locks.map { _ in
                    request.owner != nil && request.locks.count > 1 ? .unknown(reason: OperationEnding.vanished) : .refused(.held)
                }
            }
            return granted.map {
                .done(
                    .granted(
                        lease: $0.lease, fence: $0.fence,
                        validForMilliseconds: ($0.believedUntil.nanoseconds - invokedAt.nanoseconds) / 1_000_000))
            }
        } completion: { [self] endings in
            cancelScheduled()
            if let fence = request.earlierFence, let lease = granted.first { sendLateCopies(fence, of: lease) }
            guard granted.isEmpty else { return hold(granted) }
            switch endings[0] {
            case .unknown, .failed:
                // The other copy's grant is linked to this connection, and this client does not know about it.
                if isRepeated, request.isLinked { hangUp() }
                var retry = request
                retry.triesLeft -= 1
                retry.isOnlyCall = false
                guard request.owner != nil, retry.triesLeft > 0, random.happens(0.7) else { return pauseThenAct() }
                schedule(after: .milliseconds(Int64.random(in: 1...100, using: &random))) { [self] in acquire(retry) }
            case .refused where request.isOnlyCall && !isRepeated: releaseRefused(request)
            default: pauseThenAct()
            }
        }
    }

    /// Releases the refused lock in some cases, as clients do to be sure that they do not hold it.
    private func releaseRefused(_ request: Request) {
        guard let owner = request.owner, request.locks.count == 1, random.happens(0.5) else { return pauseThenAct() }
        let lock = firstLock + request.locks[0]
        let lease = world.leaseID(lock: lock, token: owner, fence: 0)
        schedule(after: .milliseconds(Int64.random(in: 0...20, using: &random))) { [self] in
            perform(
                [(number, .release(lock: lock, lease: lease))], ["LOCK.RELEASE", world.name(ofLock: request.locks[0]), owner]
            ) {
                reply in
                [reply.integer == 1 ? .done(.released) : .refused(.lost)]
            } completion: { [self] _ in
                pauseThenAct()
            }
        }
    }

    private func leases(in reply: RedisReply, _ request: Request, invokedAt: Instant) -> [HeldLease] {
        guard let parts = reply.array else { return [] }
        let rows = request.locks.count == 1 ? [[RedisReply.null] + parts] : parts.compactMap(\.array)
        return rows.enumerated().compactMap { index, row in
            guard row.count == 4, let token = row[1].text, let fence = row[2].integer,
                let validMilliseconds = row[3].integer
            else {
                return nil
            }
            let lock = firstLock + request.locks[index]
            return HeldLease(
                number: number + index, lock: lock, lease: world.leaseID(lock: lock, token: token, fence: fence),
                mode: request.mode, token: token, fence: fence, ttlMilliseconds: request.ttlMilliseconds,
                believedUntil: invokedAt.advanced(byMilliseconds: validMilliseconds), isLinked: request.isLinked,
                hasOwner: request.owner != nil)
        }
    }

    // MARK: Holding

    private func hold(_ leases: [HeldLease]) {
        held = leases
        for lease in leases where lease.isLinked { recordLink(lease, .began) }
        let length: Nanoseconds =
            switch (world.profile.lockBehavior.holds, random.unit()) {
            case (.brief, _), (.mixed, ..<0.6): .microseconds(Int64.random(in: 100...40_000, using: &random))
            case (.mixed, ..<0.9): .milliseconds(Int64.random(in: 40...700, using: &random))
            case (.mixed, _): .milliseconds(Int64.random(in: 700...4000, using: &random))
            case (.long, _): .milliseconds(Int64.random(in: 500...12_000, using: &random))
            }
        let end = world.timeline.now + length
        let lease = leases[0]
        if lease.mode == .exclusive, random.happens(0.6) {
            schedule(after: length / 2) { [self] in
                for lease in held where lease.believedUntil > world.timeline.instant { write(lease) }
            }
        }
        let point = random.unit()
        if !lease.isLinked, point < 0.07 {
            // The holder sleeps past the end of its lease and then continues as if it still held the lock.
            let wakesAt = max(lease.believedUntil.nanoseconds, end) + .milliseconds(Int64.random(in: 1...800, using: &random))
            return schedule(after: wakesAt - world.timeline.now) { [self] in
                for lease in held where lease.mode == .exclusive { write(lease) }
                renew(0) { [self] in releaseAll() }
            }
        }
        if point < 0.12 { return schedule(after: length) { [self] in abandonLeases() } }
        if point < 0.17 { return schedule(after: length) { [self] in die(forMilliseconds: 0) } }
        keep(until: end)
    }

    /// Renews the leases until `end`, then releases them.
    private func keep(until end: Nanoseconds) {
        let now = world.timeline.now
        let earliestEnd = held.map(\.believedUntil.nanoseconds).min() ?? now
        let isRenewed = held.contains { !$0.isLinked } && (end >= earliestEnd || random.happens(0.15))
        guard isRenewed, earliestEnd > now, end > now else {
            return schedule(after: end - now) { [self] in releaseAll() }
        }
        schedule(after: min(end - now, (earliestEnd - now) / 3)) { [self] in
            renew(0) { [self] in keep(until: end) }
        }
    }

    private func write(_ lease: HeldLease) {
        let isAccepted = world.write(lock: lease.lock, fence: lease.fence)
        world.record(
            .wrote(client: lease.number, lock: lease.lock, lease: lease.lease, fence: lease.fence, isAccepted: isAccepted))
    }

    /// Renews the leases from `index` on, one after another, then calls `done`.
    private func renew(_ index: Int, then done: @escaping () -> Void) {
        guard held.indices.contains(index) else { return held.isEmpty ? pauseThenAct() : done() }
        let lease = held[index]
        let invokedAt = world.timeline.instant
        perform(
            [(lease.number, .renew(lock: lease.lock, lease: lease.lease, ttlMilliseconds: lease.ttlMilliseconds))],
            ["LOCK.RENEW", world.name(ofLock: lease.lock - firstLock), lease.token, "\(lease.ttlMilliseconds)"]
                + fence(of: lease)
        ) { reply in
            guard let validForMilliseconds = reply.integer else { return [.refused(.lost)] }
            return [.done(.renewed(validForMilliseconds: validForMilliseconds))]
        } completion: { [self] endings in
            guard held.indices.contains(index), held[index].lease == lease.lease else { return pauseThenAct() }
            switch endings[0] {
            case .done(.renewed(let validForMilliseconds)):
                held[index].believedUntil = invokedAt.advanced(byMilliseconds: validForMilliseconds)
                renew(index + 1, then: done)
            case .refused:
                removeLost(index)
                renew(index, then: done)
            default:
                renew(index + 1, then: done)
            }
        }
    }

    /// Releases the leases one after another.
    private func releaseAll() {
        guard let lease = held.first else { return pauseThenAct() }
        held.removeFirst()
        let isLast = held.isEmpty && !lease.isLinked
        // Over HTTP, closing the connection cancels a request that is still queued.
        if isLast, clientProtocol != .http, isConnected, shouldPipeline() { return releaseAndClose(lease) }
        perform(
            [(lease.number, .release(lock: lease.lock, lease: lease.lease))],
            ["LOCK.RELEASE", world.name(ofLock: lease.lock - firstLock), lease.token] + fence(of: lease)
        ) { reply in
            [reply.integer == 1 ? .done(.released) : .refused(.lost)]
        } completion: { [self] endings in
            if lease.isLinked {
                // If the release is uncertain, its sidecar may still renew the lease.
                if case .unknown = endings[0] { hangUp() }
                recordLink(lease, .left)
            }
            if held.isEmpty, case .done = endings[0], !fence(of: lease).isEmpty, random.happens(0.5) { return reacquire(lease) }
            releaseAll()
        }
    }

    /// Sends the release and closes the connection right after it. Commands received before the close are executed.
    private func releaseAndClose(_ lease: HeldLease) {
        pipelined {
            perform(
                [(lease.number, .release(lock: lease.lock, lease: lease.lease))],
                ["LOCK.RELEASE", world.name(ofLock: lease.lock - firstLock), lease.token] + fence(of: lease),
                endingOnClose: OperationEnding.abandoned
            ) { _ in
                [.done(.released)]
            } completion: { _ in
            }
        }
        hangUp()
        pauseThenAct()
    }

    /// Returns the `FENCE` option of a call for this lease, or no words. The option is necessary because all leases of
    /// an owner have the same token.
    private func fence(of lease: HeldLease) -> [String] {
        lease.hasOwner && world.profile.quorum == 0 ? ["FENCE", "\(lease.fence)"] : []
    }

    /// Acquires the lock once more for the same owner.
    private func reacquire(_ earlier: HeldLease) {
        acquire(
            Request(
                locks: [earlier.lock - firstLock], mode: earlier.mode, ttlMilliseconds: earlier.ttlMilliseconds,
                waitMilliseconds: drawWait(), owner: earlier.token,
                isLinked: false, triesLeft: 1, isOnlyCall: false, earlierFence: earlier.fence))
    }

    /// Sends delayed copies of calls for the owner's earlier lease, which must not affect this one.
    private func sendLateCopies(_ fence: Int64, of lease: HeldLease) {
        // After a failover that lost the release, the lease is the earlier one.
        guard lease.fence != fence else { return }
        let target = [world.name(ofLock: lease.lock - firstLock), lease.token]
        let earlier = ["FENCE", "\(fence)"]
        if random.happens(0.5) { sendUnrecorded(["LOCK.RENEW"] + target + ["\(4 * lease.ttlMilliseconds)"] + earlier) }
        sendUnrecorded(["LOCK.RELEASE"] + target + earlier)
    }

    /// Removes a lease that the sidecar reported as lost.
    private func removeLost(_ index: Int) {
        let lease = held.remove(at: index)
        if lease.isLinked { recordLink(lease, .lost) }
    }

    /// Abandons the client's leases. Linked ones end with the connection.
    private func abandonLeases() {
        cancelScheduled()
        dropLeases()
        pauseThenAct()
    }

    override func die(forMilliseconds milliseconds: Int64) {
        dropLeases()
        super.die(forMilliseconds: milliseconds)
    }

    /// Stops treating any lease as held. Linked ones end with the connection.
    private func dropLeases() {
        let linked = held.filter(\.isLinked)
        held = []
        for lease in linked { recordLink(lease, .left) }
        if !linked.isEmpty { hangUp() }
    }

    /// Records a change of the link between a lease and the connection.
    private func recordLink(_ lease: HeldLease, _ change: LinkChange) {
        world.record(
            .linked(
                client: lease.number, lock: lease.lock, lease: lease.lease, ttlMilliseconds: lease.ttlMilliseconds,
                change))
    }

    override func disconnected(byClient: Bool) {
        for lease in held where lease.isLinked { recordLink(lease, byClient ? .left : .lost) }
        held.removeAll(where: \.isLinked)
    }

    override func receivedPush(_ parts: [RedisReply]) {
        guard parts.count == 4, parts[0].text == "lock-lost", let token = parts[2].text,
            let index = held.firstIndex(where: { $0.token == token })
        else { return }
        if held[index].isLinked { recordLink(held[index], .lost) }
        held[index].isLinked = false
    }

    // MARK: Queries

    private func sendQuery() {
        let lock = world.name(ofLock: Int.random(in: kinds.indices, using: &random))
        // Over HTTP, the sidecar answers the other queries in tasks, and tasks do not run in simulated time.
        let arguments =
            clientProtocol == .http ? ["LOCK.GRANTS", lock] : random.happens(0.5) ? ["LOCK.INFO", lock] : ["LOCK.LIST"]
        sendUnrecorded(arguments) { [self] _ in pauseThenAct() }
    }
}

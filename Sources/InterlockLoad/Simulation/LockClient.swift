internal import InterlockCore

/// A client of locks: thinks, takes a lock, does something under it, and begins again. Some behave badly.
final class LockClient {
    struct Held {
        var lock: SimulatedLock
        var mode: LockMode
        var lease: LeaseID
        var token: String
        var fence: Int64
        var ttl: Int64
        /// Until when the client believes in it.
        var deadline: Instant
        var renewals: Int
        /// The sidecar extends it for as long as the connection lives.
        var isLinked: Bool
    }

    let number: Int
    unowned let crowd: LockCrowd
    private let fleet: SimulatedFleet
    let world: SimulatedWorld
    private(set) var connection: ClientConnection?
    private(set) var sidecar = 0
    /// Counts wishes: what was planned for an earlier one is over.
    private(set) var round = 0
    private(set) var isIdle = false
    /// The lease that the sidecar extends for it.
    var linked: Held?
    /// It is being extended: in the history that is a renewal.
    var isBeingExtended = false

    init(number: Int, crowd: LockCrowd, fleet: SimulatedFleet) {
        self.number = number
        self.crowd = crowd
        self.fleet = fleet
        world = fleet.world
    }

    private var habits: LockCrowd.Habits { crowd.habits }

    /// Pauses before the next wish.
    func think(atLeast milliseconds: Int64 = 0) {
        endExtension()
        linked = nil
        hangUp()
        round += 1
        guard !crowd.isStopping else {
            isIdle = true
            return
        }
        let pause = milliseconds * SimulatedWorld.millisecond + world.draw(0...habits.thinking * SimulatedWorld.millisecond)
        world.schedule(after: pause) { [unowned self] in wish() }
    }

    private func hangUp() {
        connection?.close()
        connection = nil
    }

    private func connect(preferring number: Int? = nil) -> Bool {
        hangUp()
        guard let (connection, sidecar) = fleet.connect(preferring: number) else { return false }
        self.connection = connection
        self.sidecar = sidecar
        return true
    }

    // MARK: Acquire

    private func wish() {
        guard !crowd.isStopping else {
            isIdle = true
            return
        }
        // The first locks are wanted most.
        let lock = crowd.locks[min(world.pick(crowd.locks.count), world.pick(crowd.locks.count))]
        let mode: LockMode =
            switch crowd.uses[lock.number] {
            case .exclusive: .exclusive
            case .shared(let writers): world.happens(writers) ? .exclusive : .shared
            case .semaphore(let places): .permits(places)
            }
        let ttl = world.draw(habits.ttl)
        let wait = world.happens(habits.waits) ? world.draw(habits.wait) : 0
        let owner = world.happens(habits.choosesToken) ? OwnerToken.make(label: "own", random: world.drawPair()) : nil
        acquire(lock, mode: mode, ttl: ttl, wait: wait, owner: owner, retries: owner == nil ? 0 : 3)
    }

    private func acquire(_ lock: SimulatedLock, mode: LockMode, ttl: Int64, wait: Int64, owner: String?, retries: Int) {
        guard connect() else { return think(atLeast: 50) }
        let invokedAt = world.now
        let isLinked = world.happens(habits.links)
        world.record(
            .invoked(
                client: number, sidecar: sidecar, .acquire(lock: lock.number, mode: LeaseMode(mode), ttl: ttl, wait: wait)))
        connection?.ask { [unowned self, connection] sidecar, answer -> (() -> Void)? in
            guard let room = sidecar.room(LockRoom.self) else { return nil }
            let id = room.acquire(lock, mode: mode, ttl: ttl, wait: wait, owner: owner) { [unowned self] wishAnswer in
                let isDelivered = answer(wishAnswer)
                if isLinked, isDelivered, case .granted(let grant) = wishAnswer, let connection {
                    link(lock, grant, ttl: ttl, isOwners: owner != nil, in: room, over: connection)
                }
                return isDelivered
            }
            return { room.cancel(id) }
        } completion: { [unowned self] (result: Result<LockWish.Answer, ClientConnection.Closed>) in
            switch result {
            case .success(.granted(let grant)):
                let lease = crowd.lease(token: grant.token, fence: grant.fence, isOwners: owner != nil)
                end(.done(.granted(lease: lease, fence: grant.fence, validFor: grant.validFor)))
                hold(
                    Held(
                        lock: lock, mode: mode, lease: lease, token: grant.token, fence: grant.fence, ttl: ttl,
                        deadline: invokedAt.advanced(byMilliseconds: grant.validFor),
                        renewals: world.happens(habits.renews) ? 1 + world.pick(5) : 0, isLinked: isLinked))
            case .success(.held):
                end(.refused(.held))
                think()
            case .success(.failed(let code)):
                end(.failed(code: code))
                retry(lock, mode: mode, ttl: ttl, wait: wait, owner: owner, retries: retries)
            case .failure:
                end(.unknown(reason: "closed"))
                retry(lock, mode: mode, ttl: ttl, wait: wait, owner: owner, retries: retries)
            }
        }
        guard world.happens(habits.vanishes) else { return }
        let round = round
        world.schedule(after: world.draw(0...max(1, wait) * SimulatedWorld.millisecond)) { [unowned self] in
            guard self.round == round, isAsking else { return }
            end(.unknown(reason: OperationEnding.vanished))
            think()
        }
    }

    /// An owner who chose the token may ask again: what it has been granted is its.
    private func retry(_ lock: SimulatedLock, mode: LockMode, ttl: Int64, wait: Int64, owner: String?, retries: Int) {
        guard let owner, retries > 0, !crowd.isStopping else { return think(atLeast: world.draw(1...50)) }
        hangUp()
        round += 1
        world.schedule(after: world.draw(0...20 * SimulatedWorld.millisecond)) { [unowned self] in
            acquire(lock, mode: mode, ttl: ttl, wait: wait, owner: owner, retries: retries - 1)
        }
    }

    private var isAsking: Bool { connection?.isAsking ?? false }

    func end(_ ending: OperationEnding) {
        world.record(.ended(client: number, ending))
    }

    // MARK: Under the lock

    private func hold(_ held: Held) {
        round += 1
        if held.isLinked { return holdLinked(held) }
        if world.happens(habits.forgets) { return think() }
        if held.renewals > 0 {
            world.schedule(after: world.draw(0...max(1, held.ttl / 2)) * SimulatedWorld.millisecond) { [unowned self] in
                write(held)
                renew(held)
            }
            return
        }
        let remaining = max(1, (held.deadline.nanoseconds - world.now.nanoseconds) / SimulatedWorld.millisecond)
        if world.happens(habits.overstays) {
            world.schedule(after: (remaining + world.draw(0...2 * held.ttl)) * SimulatedWorld.millisecond) { [unowned self] in
                write(held)
                // Whoever finds that it was late may still renew: the lease may stand.
                if world.happens(0.5) { renew(held) } else { release(held) }
            }
            return
        }
        world.schedule(after: world.draw(0...max(1, min(habits.hold, remaining)) * SimulatedWorld.millisecond)) {
            [unowned self] in
            write(held)
            release(held)
        }
    }

    /// Writes what an exclusive lock guards.
    func write(_ held: Held) {
        guard held.mode == .exclusive else { return }
        let isAccepted = crowd.write(lock: held.lock.number, fence: held.fence)
        world.record(
            .wrote(
                client: number, lock: held.lock.number, lease: held.lease, fence: held.fence, isAccepted: isAccepted))
    }

    /// A connection for what follows the acquire: the same one, or another.
    private func reconnect() -> Bool {
        if connection?.isOpen ?? false, !world.happens(habits.wanders) { return true }
        return connect(preferring: world.happens(habits.wanders) ? nil : sidecar)
    }

    private func renew(_ held: Held) {
        guard reconnect() else { return think(atLeast: 50) }
        let invokedAt = world.now
        world.record(
            .invoked(client: number, sidecar: sidecar, .renew(lock: held.lock.number, lease: held.lease, ttl: held.ttl)))
        connection?.ask { sidecar, answer -> (() -> Void)? in
            sidecar.room(LockRoom.self)?.renew(held.lock, token: held.token, ttl: held.ttl, answer: answer)
            return nil
        } completion: { [unowned self] (result: Result<LockRoom.RenewAnswer, ClientConnection.Closed>) in
            switch result {
            case .success(.renewed(let validFor)):
                end(.done(.renewed(validFor: validFor)))
                var held = held
                held.deadline = invokedAt.advanced(byMilliseconds: validFor)
                held.renewals = max(0, held.renewals - 1)
                hold(held)
            case .success(.lost):
                end(.refused(.lost))
                write(held)
                think()
            case .success(.failed):
                end(.failed(code: LockRoom.unavailable))
                release(held)
            case .failure:
                end(.unknown(reason: "closed"))
                release(held)
            }
        }
    }

    func release(_ held: Held) {
        guard reconnect() else { return think(atLeast: 50) }
        world.record(.invoked(client: number, sidecar: sidecar, .release(lock: held.lock.number, lease: held.lease)))
        connection?.ask { sidecar, answer -> (() -> Void)? in
            sidecar.room(LockRoom.self)?.release(held.lock, token: held.token, answer: answer)
            return nil
        } completion: { [unowned self] (result: Result<LockRoom.ReleaseAnswer, ClientConnection.Closed>) in
            switch result {
            case .success(.released): end(.done(.released))
            case .success(.lost): end(.refused(.lost))
            case .success(.failed): end(.failed(code: LockRoom.unavailable))
            case .failure: end(.unknown(reason: "closed"))
            }
            think()
        }
    }
}

extension LeaseMode {
    init(_ mode: LockMode) {
        switch mode {
        case .exclusive: self = .exclusive
        case .shared: self = .shared
        case .permits(let places): self = .permits(places)
        }
    }
}

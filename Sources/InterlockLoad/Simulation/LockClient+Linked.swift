internal import InterlockCore

/// A lease that the sidecar extends for as long as its client's connection lives. In the history an extension is a renewal by
/// the client, which believes in the lease as the sidecar does for it.
extension LockClient {
    /// On the sidecar, as its door does: the lease is looked after from the answer on.
    func link(
        _ lock: SimulatedLock, _ grant: LeaseGrant, ttl: Int64, isOwners: Bool, in room: LockRoom,
        over connection: ClientConnection
    ) {
        let follower = SimulatedLeaseKeeper.Follower(
            extending: { [unowned self] in extensionBegan(of: grant.token, ttl: $0) },
            extended: { [unowned self] in extensionEnded(of: grant.token, validFor: $0) },
            lost: { [unowned self] in
                connection.toClient { [unowned self] in linkedLeaseIsLost(grant.token) }
            })
        room.keeper.follow(lock, grant, ttl: ttl, isOwners: isOwners, follower: follower)
        connection.onEnd = { [unowned room] in room.keeper.clientLeft(lock, token: grant.token) }
    }

    private func extensionBegan(of token: String, ttl: Int64) {
        guard let linked, linked.token == token else { return }
        endExtension()
        isBeingExtended = true
        world.record(.invoked(client: number, sidecar: sidecar, .renew(lock: linked.lock.number, lease: linked.lease, ttl: ttl)))
    }

    private func extensionEnded(of token: String, validFor: Int64?) {
        guard isBeingExtended, linked?.token == token else { return }
        guard let validFor else { return endExtension() }
        isBeingExtended = false
        end(.done(.renewed(validFor: validFor)))
    }

    /// An extension whose outcome the client does not learn.
    func endExtension() {
        guard isBeingExtended else { return }
        isBeingExtended = false
        end(.unknown(reason: OperationEnding.vanished))
    }

    private func linkedLeaseIsLost(_ token: String) {
        guard let linked, linked.token == token else { return }
        // What it was about to write it may still write.
        write(linked)
        think()
    }

    /// Works under the lease for as long as it likes; then it releases it, or just goes.
    func holdLinked(_ held: Held) {
        linked = held
        connection?.onClosed = { [unowned self] in
            // Nobody extends it any more: it lapses.
            write(held)
            think()
        }
        work(under: held, round: round, times: world.pick(6))
    }

    /// Goes without a word: the sidecar releases what was linked to the connection.
    private func leave(_ held: Held) {
        world.record(.invoked(client: number, sidecar: sidecar, .release(lock: held.lock.number, lease: held.lease)))
        end(.unknown(reason: OperationEnding.vanished))
        think()
    }

    private func work(under held: Held, round: Int, times: Int) {
        world.schedule(after: world.draw(0...held.ttl) * SimulatedWorld.millisecond) { [unowned self] in
            guard self.round == round else { return }
            write(held)
            guard times == 0 else { return work(under: held, round: round, times: times - 1) }
            endExtension()
            linked = nil
            if world.happens(0.2) { leave(held) } else { release(held) }
        }
    }
}

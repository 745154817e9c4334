internal import InterlockCore

/// A client's connection to a sidecar, through a door: a call at a time.
final class ClientConnection {
    /// There is no answer: what was asked for may have been done, or may yet be.
    struct Closed: Error {}

    private let world: SimulatedWorld
    private unowned let sidecar: SimulatedSidecar
    private unowned let host: SidecarHost
    private var lastAtSidecar = Instant(nanoseconds: .min)
    private var isOpenAtClient = true
    private var isOpenAtSidecar = true
    /// The sidecar is gone while the client asks nothing.
    var onClosed: (() -> Void)?
    /// Who waits for an answer.
    private var fail: (() -> Void)?
    /// Gives up the call under way, on the sidecar.
    private var giveUp: (() -> Void)?
    /// What the sidecar does when the client has gone: of what is linked to the connection.
    var onEnd: (() -> Void)?

    /// The client has no answer yet.
    var isAsking: Bool { fail != nil }
    var isOpen: Bool { isOpenAtClient }

    init(world: SimulatedWorld, sidecar: SimulatedSidecar, host: SidecarHost) {
        self.world = world
        self.sidecar = sidecar
        self.host = host
    }

    /// Asks the sidecar for something.
    /// - Parameters:
    ///   - call: runs on the sidecar. It is handed where its answer goes, which says whether it could still be delivered, as a
    ///     `Completion` does; it returns how the call is given up should the client go away, if it can be.
    ///   - completion: runs on the client: with the answer, or when the connection is gone. Not after `close`.
    func ask<Answer>(
        _ call: @escaping (_ sidecar: SimulatedSidecar, _ answer: @escaping (Answer) -> Bool) -> (() -> Void)?,
        completion: @escaping (Result<Answer, Closed>) -> Void
    ) {
        guard isOpenAtClient else { return completion(.failure(Closed())) }
        fail = { completion(.failure(Closed())) }
        toSidecar { [self] in
            giveUp = call(sidecar) { [self] answer in
                guard isOpenAtSidecar else { return false }
                giveUp = nil
                toClient { [self] in
                    fail = nil
                    completion(.success(answer))
                }
                return true
            }
        }
    }

    /// The client goes away.
    func close() {
        guard isOpenAtClient else { return }
        isOpenAtClient = false
        fail = nil
        onClosed = nil
        toSidecar { [self] in
            host.forget(self)
            isOpenAtSidecar = false
            let giveUp = giveUp
            self.giveUp = nil
            giveUp?()
            onEnd?()
            onEnd = nil
        }
    }

    /// The sidecar's process is gone.
    func sidecarDied() {
        isOpenAtSidecar = false
        giveUp = nil
        onEnd = nil
        toClient { [self] in
            isOpenAtClient = false
            fail?() ?? onClosed?()
            fail = nil
            onClosed = nil
        }
    }

    private func toSidecar(_ receive: @escaping () -> Void) {
        let delay = world.draw(5 * SimulatedWorld.microsecond...50 * SimulatedWorld.microsecond)
        lastAtSidecar = max(lastAtSidecar, Instant(nanoseconds: world.now.nanoseconds + delay))
        world.schedule(at: lastAtSidecar, on: sidecar.node) { [self] in
            if isOpenAtSidecar { receive() }
        }
    }

    /// Carries something to the client: an answer, or what it is told unasked.
    func toClient(_ receive: @escaping () -> Void) {
        let delay = world.draw(5 * SimulatedWorld.microsecond...50 * SimulatedWorld.microsecond)
        world.schedule(after: delay) { [self] in
            if isOpenAtClient { receive() }
        }
    }
}

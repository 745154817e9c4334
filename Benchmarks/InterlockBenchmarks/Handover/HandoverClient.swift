import NIOCore

/// One client that takes the lock and gives it back, over and over, until the run says that it is enough.
final class HandoverClient: SidecarLinkOwner {
    private enum State {
        case idle
        case acquiring(askedAt: NIODeadline)
        case releasing
        case done
    }

    private let run: HandoverRun
    private var link: SidecarLink?
    private var state = State.idle

    init(run: HandoverRun) {
        self.run = run
    }

    /// Since when it has been waiting for the lock; `nil`: it is not.
    var waitingSince: NIODeadline? {
        guard case .acquiring(let askedAt) = state else { return nil }
        return askedAt
    }

    func connect(to endpoint: BenchmarkedSidecar, on eventLoop: any EventLoop) {
        link = SidecarLink.open(to: endpoint, on: eventLoop, owner: self)
    }

    func linkIsUp() {
        run.clientIsUp()
    }

    func acquire() {
        state = .acquiring(askedAt: .now())
        link?.send(run.acquireCommand)
    }

    func received(_ reply: SidecarReply) {
        switch (state, reply) {
        case (.acquiring(let askedAt), .lease(let token, let fence)):
            run.record.granted(to: ObjectIdentifier(self), fence: fence, askedAt: askedAt, now: .now())
            state = .releasing
            let release = LeaseCommand.release(run.lock, token: token)
            run.record.releases(ObjectIdentifier(self), now: .now())
            link?.send(release)
        case (.releasing, .integer(1)):
            goOn()
        default:
            run.record.failed("\(reply) to a client that was \(state)")
            run.later { [self] in goOn() }
        }
    }

    func linkIsLost(_ error: any Error) {
        run.record.failed("\(error)")
        state = .done
        run.clientIsDone()
    }

    private func goOn() {
        // The link may have been lost meanwhile.
        if case .done = state { return }
        guard run.isEnding else { return acquire() }
        state = .done
        link?.close()
        run.clientIsDone()
    }
}

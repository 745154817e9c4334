import NIOCore

/// One connection that holds its share of the leases: by being there, it keeps them.
final class LinkedClient: SidecarLinkOwner {
    /// Commands under way at once: less than what a sidecar takes before it pauses reading.
    private static let window = 500

    private enum State {
        /// Until all locks have been asked for and answered.
        case acquiring
        case holding
        case looking(lost: Int)
    }

    private let locks: [String]
    private let run: LinkedRun
    private var link: SidecarLink?
    private var state = State.acquiring
    private var sent = 0
    private var answered = 0
    /// In the order of the locks.
    private var tokens: [String] = []

    init(locks: [String], run: LinkedRun) {
        self.locks = locks
        self.run = run
    }

    func connect(to endpoint: BenchmarkedSidecar, on eventLoop: any EventLoop) {
        link = SidecarLink.open(to: endpoint, on: eventLoop, owner: self)
    }

    func linkIsUp() {
        sendMore()
    }

    func lookForLeases() {
        (sent, answered) = (0, 0)
        state = .looking(lost: 0)
        sendMore()
    }

    func received(_ reply: SidecarReply) {
        answered += 1
        switch (state, reply) {
        case (.acquiring, .lease(let token, _)):
            tokens.append(token)
            if answered == locks.count {
                state = .holding
                return run.clientHoldsAll()
            }
        case (.looking(let lost), .integer):
            looked(lost: lost)
        case (.looking(let lost), .nothing):
            looked(lost: lost + 1)
        default:
            return run.failed(BenchmarkFailure("\(reply) to a connection that was \(state), after \(answered) replies"))
        }
        sendMore()
    }

    func linkIsLost(_ error: any Error) {
        run.failed(error)
    }

    private func looked(lost: Int) {
        state = .looking(lost: lost)
        if answered == locks.count { run.clientHasLooked(lost: lost) }
    }

    private func sendMore() {
        while sent < locks.count, sent - answered < Self.window {
            let lock = locks[sent]
            if case .looking = state {
                link?.sendLater(LeaseCommand.renew(lock, token: tokens[sent], ttl: run.plan.ttl))
            } else {
                link?.sendLater(LeaseCommand.acquire(lock, ttl: run.plan.ttl, "LINKED"))
            }
            sent += 1
        }
        link?.flush()
    }
}

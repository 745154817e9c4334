internal import CoreMetrics
internal import Logging
internal import NIOConcurrencyHelpers
internal import NIOCore

/// Counts those who show an API key that is none, and says so, once a minute at most.
final class RefusedLogins: Sendable {
    private struct State {
        var nextComplaint = NIODeadline.uptimeNanoseconds(0)
        var untold = 0
    }

    private static let pause = TimeAmount.minutes(1)

    private let counter: Counter
    private let door: String
    private let logger: Logger
    private let state = NIOLockedValueBox(State())

    init(door: String, logger: Logger) {
        self.door = door
        self.logger = logger
        counter = Counter(label: "interlock_refused_logins_total", dimensions: [("door", door)])
    }

    func refused(from address: SocketAddress?, now: NIODeadline = .now()) {
        counter.increment()
        let count = state.withLockedValue { state -> Int? in
            state.untold += 1
            guard now >= state.nextComplaint else { return nil }
            state.nextComplaint = now + Self.pause
            defer { state.untold = 0 }
            return state.untold
        }
        guard let count else { return }
        logger.warning(
            "An API key was shown that is none",
            metadata: [
                "door": "\(door)", "from": "\(address?.ipAddress ?? "this host")", "times": "\(count)",
            ])
    }
}

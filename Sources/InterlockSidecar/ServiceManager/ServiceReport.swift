/// What a service manager is told of a sidecar, and when. Decisions only: no socket and no clock.
struct ServiceReport: Sendable {
    /// A line of the protocol of sd_notify(3).
    enum Line: Sendable, Equatable {
        /// `READY=1`: the sidecar has started, or has reloaded.
        case ready
        /// `RELOADING=1`, with when it began, on the monotonic clock in µs: systemd tells the reload that it asked for from an
        /// earlier one by that.
        case reloading(at: UInt64)
        /// `STOPPING=1`
        case stopping
        /// `WATCHDOG=1`: the coordinator's event loop turns.
        case alive
        /// `STATUS=…`, for people: `systemctl status` shows it.
        case status(String)

        /// As it is sent.
        var text: String {
            switch self {
            case .ready: "READY=1"
            case .reloading(let microseconds): "RELOADING=1\nMONOTONIC_USEC=\(microseconds)"
            case .stopping: "STOPPING=1"
            case .alive: "WATCHDOG=1"
            case .status(let text): "STATUS=" + String(text.map { $0.isNewline ? " " : $0 })
            }
        }
    }

    private enum State {
        case starting, serving, stopping
    }

    private var state = State.starting
    /// Why the configuration that was read last is not in force.
    private var reloadFailure: String?
    private var redis: RedisState?
    private var lastStatus: String?

    /// What is known of the sidecar's Redis.
    enum RedisState: Sendable, Equatable {
        case isUp
        /// With the reason, where there is one.
        case isAway(String?)
    }

    /// Both doors are open. Redis may be away: a sidecar serves without it, and waits for it as long as it takes.
    mutating func doorsOpened() -> [Line] {
        guard state == .starting else { return [] }
        state = .serving
        return [.ready] + changedStatus()
    }

    /// The configuration is being read again.
    mutating func reloadBegan(at microseconds: UInt64) -> [Line] {
        state == .serving ? [.reloading(at: microseconds)] : []
    }

    /// The configuration was read again.
    /// - Parameter failure: why the old one stays in force; `nil`: the new one is.
    mutating func reloadEnded(failure: String?) -> [Line] {
        reloadFailure = failure
        guard state == .serving else { return [] }
        return [.ready] + changedStatus()
    }

    /// The coordinator's event loop looked at Redis.
    mutating func looked(_ redis: RedisState) -> [Line] {
        self.redis = redis
        // While it goes down, what it finds is no news, but it must be seen to turn.
        return [.alive] + (state == .serving ? changedStatus() : [])
    }

    /// Redis was connected for the first time. Said at once: until the next look the status would be that of a moment ago.
    mutating func redisConnected() -> [Line] {
        redis = .isUp
        return state == .serving ? changedStatus() : []
    }

    /// The sidecar goes down.
    mutating func stopped() -> [Line] {
        guard state != .stopping else { return [] }
        state = .stopping
        return [.stopping, .status("Going down")]
    }

    private mutating func changedStatus() -> [Line] {
        let status = status
        guard status != lastStatus else { return [] }
        lastStatus = status
        return [.status(status)]
    }

    private var status: String {
        let serving =
            switch redis {
            case nil: "Serving"
            case .isUp: "Serving; Redis is connected"
            case .isAway(nil): "Serving without Redis"
            case .isAway(let reason?): "Serving without Redis: \(reason)"
            }
        return reloadFailure.map { "\(serving). The last reload failed, the old configuration stays: \($0)" } ?? serving
    }
}

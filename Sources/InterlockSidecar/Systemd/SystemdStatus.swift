/// Decides what to report to a service manager, and when. Uses neither a socket nor a clock.
struct SystemdStatus: Sendable {
    /// A line of the protocol of sd_notify(3).
    enum Line: Sendable, Equatable {
        /// `READY=1`: the sidecar has started, or has reloaded.
        case ready
        /// `RELOADING=1` with the start of the reload on the monotonic clock, in microseconds. The start lets systemd
        /// distinguish the reload that it requested from an earlier one.
        case reloading(atMicroseconds: UInt64)
        /// `STOPPING=1`: the sidecar is shutting down.
        case stopping
        /// `WATCHDOG=1`: the coordinator's event loop is running.
        case alive
        /// `STATUS=…`, the human-readable line that `systemctl status` shows.
        case status(String)

        /// The text of the line in the protocol.
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
    /// The reason why the last reload failed; `nil` if it succeeded.
    private var reloadFailure: String?
    private var redis: RedisState?
    private var lastStatus: String?

    /// The state of the sidecar's Redis.
    enum RedisState: Sendable, Equatable {
        case connected
        /// Redis is unreachable, with the reason if known.
        case unreachable(String?)
    }

    /// Reports that all listeners are open. Redis may be unreachable, because a sidecar serves without it and keeps
    /// trying to connect.
    mutating func listenersOpened() -> [Line] {
        guard state == .starting else { return [] }
        state = .serving
        return [.ready] + changedStatus()
    }

    /// Reports that a reload has begun.
    /// - Parameter microseconds: the start of the reload on the monotonic clock.
    mutating func reloadBegan(atMicroseconds microseconds: UInt64) -> [Line] {
        state == .serving ? [.reloading(atMicroseconds: microseconds)] : []
    }

    /// Reports that a reload is complete.
    /// - Parameter failure: the reason why the old configuration stays in effect; `nil` if the new one was applied.
    mutating func reloadEnded(failure: String?) -> [Line] {
        reloadFailure = failure
        guard state == .serving else { return [] }
        return [.ready] + changedStatus()
    }

    /// Reports that the event loop is running, and the state of Redis if it has changed.
    mutating func redisChecked(_ redis: RedisState) -> [Line] {
        self.redis = redis
        // During a shutdown, the status does not change, but the watchdog still needs its message.
        return [.alive] + (state == .serving ? changedStatus() : [])
    }

    /// Reports the first connection to Redis immediately, because the status would otherwise be out of date until the
    /// next check.
    mutating func redisConnected() -> [Line] {
        redis = .connected
        return state == .serving ? changedStatus() : []
    }

    /// Reports that the sidecar is shutting down.
    mutating func shutdownBegan() -> [Line] {
        guard state != .stopping else { return [] }
        state = .stopping
        return [.stopping, .status("Shutting down")]
    }

    /// Returns the status line if it differs from the last one.
    private mutating func changedStatus() -> [Line] {
        let status = status
        guard status != lastStatus else { return [] }
        lastStatus = status
        return [.status(status)]
    }

    private var status: String {
        let servingStatus =
            switch redis {
            case nil: "Serving"
            case .connected: "Serving; Redis is connected"
            case .unreachable(nil): "Serving without Redis"
            case .unreachable(let reason?): "Serving without Redis: \(reason)"
            }
        guard let reloadFailure else { return servingStatus }
        return "\(servingStatus). The last reload failed; the old configuration stays in effect: \(reloadFailure)"
    }
}

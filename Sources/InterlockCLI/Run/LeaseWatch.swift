import InterlockCore

/// Decides when to renew the lease that a command runs under, and when to end the command because the lease is lost.
///
/// After each event, call `next` until it returns `wait`.
struct LeaseWatch: Equatable, Sendable {
    enum Action: Equatable, Sendable {
        /// Wait until this time, or until the next event.
        case wait(until: Instant)
        /// Send a renewal, and report its outcome together with this instant.
        case renew(sentAt: Instant)
        /// Ask the command to end.
        case terminate
        /// Kill the command.
        case kill
    }

    private enum State: Equatable, Sendable {
        case held(deadline: Instant, renewal: Renewal)
        /// The lease is lost, and the command has not been signaled yet.
        case lost(at: Instant)
        /// The command was asked to end, and is killed at `killAt`.
        case ending(killAt: Instant)
        case killed
    }

    private enum Renewal: Equatable, Sendable {
        case due(Instant)
        case inFlight(sentAt: Instant)
    }

    /// The time that a command has to end after its lease is lost, in milliseconds.
    static let grace: Int64 = 5000

    /// The length of the lease, in milliseconds.
    private let ttl: Int64
    /// Whether the command is killed without being asked to end first.
    private let isStrict: Bool
    private var state: State

    /// Creates the watch of a lease of `ttl` milliseconds that was requested at `sentAt`.
    init(ttl: Int64, sentAt: Instant, isStrict: Bool) {
        self.ttl = ttl
        self.isStrict = isStrict
        state = .held(
            deadline: LeaseValidity.deadline(ttl: ttl, sentAt: sentAt),
            renewal: .due(sentAt.advanced(byMilliseconds: Self.interval(ofTTL: ttl))))
    }

    /// Whether the lease can be relied on at `now`.
    func isHeld(at now: Instant) -> Bool {
        if case .held(let deadline, _) = state { now < deadline } else { false }
    }

    /// The end of the lease unless it is renewed; `nil` if it is lost.
    var deadline: Instant? {
        if case .held(let deadline, _) = state { deadline } else { nil }
    }

    /// Whether the lease was lost.
    var isLost: Bool {
        if case .held = state { false } else { true }
    }

    /// Whether the command was asked to end and still has time to do so.
    var isEnding: Bool {
        if case .ending = state { true } else { false }
    }

    mutating func next(now: Instant) -> Action {
        switch state {
        case .held(let deadline, _) where deadline <= now:
            return end(lostAt: deadline)
        case .held(let deadline, .due(let due)):
            guard due <= now else { return .wait(until: min(due, deadline)) }
            state = .held(deadline: deadline, renewal: .inFlight(sentAt: now))
            return .renew(sentAt: now)
        case .held(let deadline, .inFlight):
            return .wait(until: deadline)
        case .lost(let moment):
            return end(lostAt: moment)
        case .ending(let killAt):
            guard killAt <= now else { return .wait(until: killAt) }
            state = .killed
            return .kill
        case .killed:
            return .wait(until: .distantFuture)
        }
    }

    /// Records that the renewal sent at `sentAt` succeeded.
    mutating func renewed(sentAt: Instant) {
        guard case .held(let deadline, .inFlight(sentAt)) = state else { return }
        state = .held(
            deadline: max(deadline, LeaseValidity.deadline(ttl: ttl, sentAt: sentAt)),
            renewal: .due(sentAt.advanced(byMilliseconds: Self.interval(ofTTL: ttl))))
    }

    /// Records that the renewal sent at `sentAt` got no answer: the sidecar or its Redis is unreachable, and the lease
    /// may or may not still be held.
    mutating func unanswered(sentAt: Instant, now: Instant) {
        guard case .held(let deadline, .inFlight(sentAt)) = state else { return }
        state = .held(deadline: deadline, renewal: .due(now.advanced(byMilliseconds: Self.pause(ofTTL: ttl))))
    }

    /// Records that the renewal sent at `sentAt` was rejected because this lease no longer holds the lock.
    mutating func lost(sentAt: Instant, now: Instant) {
        guard case .held(let deadline, .inFlight(sentAt)) = state else { return }
        state = .lost(at: min(now, deadline))
    }

    private mutating func end(lostAt moment: Instant) -> Action {
        guard !isStrict else {
            state = .killed
            return .kill
        }
        state = .ending(killAt: moment.advanced(byMilliseconds: Self.grace))
        return .terminate
    }

    /// Returns the time between two renewals: a third of the lease, but at most a second, so that a loss is noticed
    /// soon.
    private static func interval(ofTTL ttl: Int64) -> Int64 { min(ttl / 3, 1000) }

    /// Returns the pause after a renewal that got no answer.
    private static func pause(ofTTL ttl: Int64) -> Int64 { min(ttl / 10, 500) }
}

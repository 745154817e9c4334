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
        /// The command was asked to end, and will be killed at `killAt`.
        case ending(killAt: Instant)
        case killed
    }

    private enum Renewal: Equatable, Sendable {
        case due(Instant)
        case inFlight(sentAt: Instant)
    }

    /// The time that a command has to end after the loss of its lease.
    static let gracePeriodMilliseconds: Int64 = 5000

    private let ttlMilliseconds: Int64
    /// Whether the command is killed without being asked to end first.
    private let isStrict: Bool
    private var state: State

    /// Creates the watch of a lease that was requested at `sentAt`.
    /// - Parameter ttlMilliseconds: the length of the lease.
    init(ttlMilliseconds: Int64, sentAt: Instant, isStrict: Bool) {
        self.ttlMilliseconds = ttlMilliseconds
        self.isStrict = isStrict
        state = .held(
            deadline: LeaseValidity.deadline(ttlMilliseconds: ttlMilliseconds, sentAt: sentAt),
            renewal: .due(sentAt.advanced(byMilliseconds: Self.renewalIntervalMilliseconds(ofTTL: ttlMilliseconds))))
    }

    /// Whether the lease can be relied on at `now`.
    func isHeld(at now: Instant) -> Bool {
        if case .held(let deadline, _) = state { now < deadline } else { false }
    }

    /// The end of the lease if no further renewal succeeds; `nil` if the lease is lost.
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

    /// Returns the next action, and assumes that the caller carries it out.
    mutating func next(now: Instant) -> Action {
        switch state {
        case .held(let deadline, _) where deadline <= now:
            return end(lostAt: deadline)
        case .held(let deadline, .due(let renewalTime)):
            guard renewalTime <= now else { return .wait(until: min(renewalTime, deadline)) }
            state = .held(deadline: deadline, renewal: .inFlight(sentAt: now))
            return .renew(sentAt: now)
        case .held(let deadline, .inFlight):
            return .wait(until: deadline)
        case .lost(let lostAt):
            return end(lostAt: lostAt)
        case .ending(let killAt):
            guard killAt <= now else { return .wait(until: killAt) }
            state = .killed
            return .kill
        case .killed:
            return .wait(until: .distantFuture)
        }
    }

    /// Records that the renewal sent at `sentAt` succeeded.
    mutating func renewalSucceeded(sentAt: Instant) {
        guard case .held(let deadline, .inFlight(sentAt)) = state else { return }
        state = .held(
            deadline: max(deadline, LeaseValidity.deadline(ttlMilliseconds: ttlMilliseconds, sentAt: sentAt)),
            renewal: .due(sentAt.advanced(byMilliseconds: Self.renewalIntervalMilliseconds(ofTTL: ttlMilliseconds))))
    }

    /// Records that the renewal sent at `sentAt` got no answer: the sidecar or its Redis is unreachable, and the lease
    /// may or may not still be held.
    mutating func renewalUnanswered(sentAt: Instant, now: Instant) {
        guard case .held(let deadline, .inFlight(sentAt)) = state else { return }
        let pauseMilliseconds = Self.retryPauseMilliseconds(ofTTL: ttlMilliseconds)
        state = .held(deadline: deadline, renewal: .due(now.advanced(byMilliseconds: pauseMilliseconds)))
    }

    /// Records that the renewal sent at `sentAt` was rejected because this lease no longer holds the lock.
    mutating func renewalRejected(sentAt: Instant, now: Instant) {
        guard case .held(let deadline, .inFlight(sentAt)) = state else { return }
        state = .lost(at: min(now, deadline))
    }

    private mutating func end(lostAt: Instant) -> Action {
        guard !isStrict else {
            state = .killed
            return .kill
        }
        state = .ending(killAt: lostAt.advanced(byMilliseconds: Self.gracePeriodMilliseconds))
        return .terminate
    }

    /// Returns the time between two renewals: a third of the lease, but at most a second, to notice a loss soon.
    private static func renewalIntervalMilliseconds(ofTTL ttlMilliseconds: Int64) -> Int64 {
        min(ttlMilliseconds / 3, 1000)
    }

    /// Returns the pause after a renewal that got no answer.
    private static func retryPauseMilliseconds(ofTTL ttlMilliseconds: Int64) -> Int64 { min(ttlMilliseconds / 10, 500) }
}

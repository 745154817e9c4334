import InterlockCore

/// Decides when to renew the lease that a command runs under, and when to end the command because the lease is lost.
///
/// After everything that happened, `next` is asked until it says to wait.
struct LeaseWatch: Equatable, Sendable {
    enum Action: Equatable, Sendable {
        /// Nothing is to be done before then, unless something happens.
        case wait(until: Instant)
        /// Send a renewal, and hand in what came of it together with this instant.
        case renew(sentAt: Instant)
        /// Ask the command to end.
        case terminate
        /// End the command.
        case kill
    }

    private enum State: Equatable, Sendable {
        case held(deadline: Instant, renewal: Renewal)
        /// The command does not know yet.
        case lost(at: Instant)
        /// The command was asked to end.
        case ending(killAt: Instant)
        case killed
    }

    private enum Renewal: Equatable, Sendable {
        case due(Instant)
        case underWay(sentAt: Instant)
    }

    /// How long a command may take to end when its lease is lost, in milliseconds.
    static let grace: Int64 = 5000

    /// Of the lease, in milliseconds.
    private let ttl: Int64
    /// Whether a command is ended without being asked to.
    private let isStrict: Bool
    private var state: State

    /// A lease of `ttl` milliseconds that was asked for at `sentAt`.
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

    /// The end of the lease unless it is renewed; `nil` once it is lost.
    var deadline: Instant? {
        if case .held(let deadline, _) = state { deadline } else { nil }
    }

    /// Whether the lease was lost.
    var isLost: Bool {
        if case .held = state { false } else { true }
    }

    /// Whether the command was asked to end and has time left for it.
    var isEnding: Bool {
        if case .ending = state { true } else { false }
    }

    mutating func next(now: Instant) -> Action {
        switch state {
        case .held(let deadline, _) where deadline <= now:
            return end(lostAt: deadline)
        case .held(let deadline, .due(let due)):
            guard due <= now else { return .wait(until: min(due, deadline)) }
            state = .held(deadline: deadline, renewal: .underWay(sentAt: now))
            return .renew(sentAt: now)
        case .held(let deadline, .underWay):
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

    /// The renewal of that instant extended the lease.
    mutating func renewed(sentAt: Instant) {
        guard case .held(let deadline, .underWay(sentAt)) = state else { return }
        state = .held(
            deadline: max(deadline, LeaseValidity.deadline(ttl: ttl, sentAt: sentAt)),
            renewal: .due(sentAt.advanced(byMilliseconds: Self.interval(ofTTL: ttl))))
    }

    /// The renewal of that instant came to nothing: the sidecar or its Redis is away, and the lease may be held or not.
    mutating func unanswered(sentAt: Instant, now: Instant) {
        guard case .held(let deadline, .underWay(sentAt)) = state else { return }
        state = .held(deadline: deadline, renewal: .due(now.advanced(byMilliseconds: Self.pause(ofTTL: ttl))))
    }

    /// The renewal of that instant found that this lease no longer holds the lock.
    mutating func lost(sentAt: Instant, now: Instant) {
        guard case .held(let deadline, .underWay(sentAt)) = state else { return }
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

    /// From one renewal to the next: a third of the lease, and no more than a second, so that a loss is soon known.
    private static func interval(ofTTL ttl: Int64) -> Int64 { min(ttl / 3, 1000) }

    /// From a renewal that came to nothing to the next.
    private static func pause(ofTTL ttl: Int64) -> Int64 { min(ttl / 10, 500) }
}

import InterlockCommandLine
import InterlockCore

/// Decides how to request a lock: until when, how long each request waits, and whether a granted lease is fresh enough.
struct Candidacy: Equatable, Sendable {
    /// A request to the sidecar.
    struct Request: Equatable, Sendable {
        /// For how many milliseconds the sidecar is to wait.
        var wait: Int64
        /// When to send it.
        var at: Instant
    }

    enum Action: Equatable, Sendable {
        case ask(Request)
        /// Run the command: the lease counts from when the request that was answered was sent.
        case start
        /// Another holds the lock, and the time is over.
        case giveUp
    }

    /// Until when the lock is waited for.
    private let until: Instant
    /// Until when a sidecar or a Redis that went away is waited for: somebody who would not wait for a holder may still run.
    private let isAwayUntil: Instant
    /// Of the lease that is asked for, in milliseconds.
    private let ttl: Int64
    private let isLeading: Bool
    private(set) var hasConnected = false
    /// How often the sidecar or its Redis was away since the last answer.
    private(set) var failures = 0
    /// When to print that the lock is being waited for.
    private(set) var noticeAt: Instant

    /// A sidecar may cut longer waits.
    private static let longestWait = LockSettings().maximumWait.wholeMilliseconds
    /// The pause after a sidecar did not wait, although it was asked to.
    private static let shortestPause: Int64 = 250
    /// The longest pause while the sidecar or its Redis is away.
    private static let longestPause: Int64 = 5000
    private static let noticeDelay: Int64 = 2000
    /// How long a sidecar or a Redis that went away is waited for at least.
    private static let patience: Int64 = 10_000

    init(_ purpose: RunPlan.Purpose, ttl: Duration, now: Instant) {
        switch purpose {
        case .once(let wait):
            until = now.advanced(byMilliseconds: wait.wholeMilliseconds)
            isAwayUntil = max(until, now.advanced(byMilliseconds: Self.patience))
            isLeading = false
        case .lead:
            until = .distantFuture
            isAwayUntil = .distantFuture
            isLeading = true
        }
        self.ttl = ttl.wholeMilliseconds
        noticeAt = now.advanced(byMilliseconds: Self.noticeDelay)
    }

    /// What a sidecar, or a peer that is none, says to the same request again and again.
    static let refusals: Set<ExitStatus> = [.invalid, .denied, .notSidecar, .otherVersion]

    /// Whether a failure will pass: the sidecar or its Redis is away. Where a sidecar was before, what answers now and is none stands in
    /// its place for a while.
    func isAway(_ status: ExitStatus) -> Bool {
        status == .unavailable || status == .notSidecar && hasConnected
    }

    /// There is a connection to a sidecar.
    mutating func connected(now: Instant) -> Request {
        hasConnected = true
        return request(at: now)
    }

    /// The sidecar answered the request, which was sent at `sentAt`.
    mutating func answered(isGranted: Bool, request: Request, sentAt: Instant, now: Instant) -> Action {
        failures = 0
        let age = now.millisecondsRoundedUp(since: sentAt)
        if isGranted {
            // A lease counts from before its request, and this one may have waited for most of that: an owner who asks again
            // gets the same lease anew, at once.
            let isFresh = age <= ttl / 3
            let isUsable = request.wait == 0 && LeaseValidity.remaining(ttl: ttl, sentAt: sentAt, now: now) > 0
            return isFresh || isUsable ? .start : .ask(Request(wait: 0, at: now))
        }
        guard now < until else { return .giveUp }
        return .ask(self.request(at: age < Self.shortestPause ? now.advanced(byMilliseconds: Self.shortestPause) : now))
    }

    /// The sidecar or its Redis is away.
    /// - Returns: when to connect and ask again; `nil`: not at all. A sidecar that was never reached is not waited for, except
    ///   with `--lead`.
    mutating func failed(now: Instant) -> Instant? {
        guard isLeading || hasConnected, now < isAwayUntil else { return nil }
        failures += 1
        let pause = min(Self.longestPause, Self.shortestPause << Int64(min(failures, 8)))
        return min(isAwayUntil, now.advanced(byMilliseconds: pause))
    }

    /// Whether to print it now, which is done once.
    mutating func isNoticeDue(now: Instant) -> Bool {
        guard noticeAt <= now else { return false }
        noticeAt = .distantFuture
        return true
    }

    private func request(at time: Instant) -> Request {
        Request(wait: min(Self.longestWait, max(0, until.millisecondsRoundedUp(since: time))), at: time)
    }
}

import InterlockCommandLine
import InterlockCore

/// Decides how long to keep requesting a lock, how long each request waits, and whether a granted lease is fresh
/// enough.
struct Candidacy: Equatable, Sendable {
    /// A request to the sidecar.
    struct Request: Equatable, Sendable {
        /// The time that the sidecar may wait, in milliseconds.
        var wait: Int64
        /// The time at which to send the request.
        var at: Instant
    }

    enum Action: Equatable, Sendable {
        case ask(Request)
        /// Run the command. The lease counts from the time at which the granted request was sent.
        case start
        /// Give up, because another holds the lock and the wait is over.
        case giveUp
    }

    /// The time until which to wait for a holder.
    private let until: Instant
    /// The time until which to retry while the sidecar or its Redis is unreachable. A run with a shorter wait still
    /// survives a brief outage.
    private let outageDeadline: Instant
    /// The length of the requested lease, in milliseconds.
    private let ttl: Int64
    private let isLeading: Bool
    private(set) var hasConnected = false
    /// The number of failures since the last answer of the sidecar.
    private(set) var failures = 0
    /// The time at which to print that the run is waiting for the lock.
    private(set) var noticeAt: Instant

    /// The longest wait of one request. A sidecar may cut longer ones.
    private static let longestWait = LockSettings().maximumWait.wholeMilliseconds
    /// The shortest pause between requests, in milliseconds, used if a sidecar answered without waiting.
    private static let shortestPause: Int64 = 250
    /// The longest pause between attempts while the sidecar or its Redis is unreachable, in milliseconds.
    private static let longestPause: Int64 = 5000
    private static let noticeDelay: Int64 = 2000
    /// The minimum time to retry while the sidecar or its Redis is unreachable, in milliseconds.
    private static let patience: Int64 = 10_000

    init(_ purpose: RunPlan.Purpose, ttl: Duration, now: Instant) {
        switch purpose {
        case .once(let wait):
            until = now.advanced(byMilliseconds: wait.wholeMilliseconds)
            outageDeadline = max(until, now.advanced(byMilliseconds: Self.patience))
            isLeading = false
        case .lead:
            until = .distantFuture
            outageDeadline = .distantFuture
            isLeading = true
        }
        self.ttl = ttl.wholeMilliseconds
        noticeAt = now.advanced(byMilliseconds: Self.noticeDelay)
    }

    /// The failures that repeat for the same request, so that a retry is pointless.
    static let refusals: Set<ExitStatus> = [.invalid, .denied, .notSidecar, .otherVersion]

    /// Returns whether a failure may be temporary, because the sidecar or its Redis is unreachable. Once a sidecar has
    /// answered, another server at its address also counts as temporary.
    func isUnreachable(_ status: ExitStatus) -> Bool {
        status == .unavailable || status == .notSidecar && hasConnected
    }

    /// Handles a new connection to a sidecar.
    mutating func connected(now: Instant) -> Request {
        hasConnected = true
        return request(at: now)
    }

    /// Handles the sidecar's answer to a request that was sent at `sentAt`.
    mutating func answered(isGranted: Bool, request: Request, sentAt: Instant, now: Instant) -> Action {
        failures = 0
        let age = now.millisecondsRoundedUp(since: sentAt)
        if isGranted {
            // The lease counts from the time at which the request was sent, and waiting may have used up most of it. An
            // owner that asks again gets the same lease extended, at once.
            let isFresh = age <= ttl / 3
            let isUsable = request.wait == 0 && LeaseValidity.remaining(ttl: ttl, sentAt: sentAt, now: now) > 0
            return isFresh || isUsable ? .start : .ask(Request(wait: 0, at: now))
        }
        guard now < until else { return .giveUp }
        return .ask(self.request(at: age < Self.shortestPause ? now.advanced(byMilliseconds: Self.shortestPause) : now))
    }

    /// Handles a failure to reach the sidecar or its Redis.
    /// - Returns: the time of the next attempt, or `nil` to stop. A sidecar that was never reached is retried only with
    ///   `--lead`.
    mutating func failed(now: Instant) -> Instant? {
        guard isLeading || hasConnected, now < outageDeadline else { return nil }
        failures += 1
        let pause = min(Self.longestPause, Self.shortestPause << Int64(min(failures, 8)))
        return min(outageDeadline, now.advanced(byMilliseconds: pause))
    }

    /// Returns whether to print the notice now. Returns `true` only once.
    mutating func isNoticeDue(now: Instant) -> Bool {
        guard noticeAt <= now else { return false }
        noticeAt = .distantFuture
        return true
    }

    private func request(at time: Instant) -> Request {
        Request(wait: min(Self.longestWait, max(0, until.millisecondsRoundedUp(since: time))), at: time)
    }
}

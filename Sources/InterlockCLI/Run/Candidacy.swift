import InterlockCommandLine
import InterlockCore

/// Decides how long to keep requesting a lock, how long each request waits, and whether a granted lease is fresh
/// enough.
struct Candidacy: Equatable, Sendable {
    /// A request to the sidecar.
    struct Request: Equatable, Sendable {
        /// The time that the sidecar may wait, in milliseconds.
        var wait: Int64
        /// The time to send the request.
        var at: Instant
    }

    enum Action: Equatable, Sendable {
        case request(Request)
        /// Run the command. The lease counts from when the granted request was sent.
        case start
        /// Give up, because another client holds the lock and the wait is over.
        case giveUp
    }

    /// The deadline of the wait while another holds the lock.
    private let waitDeadline: Instant
    /// The deadline of retries while the sidecar or its Redis is unreachable. It may be later than
    /// `waitDeadline`, so that a run that does not wait survives a brief outage.
    private let outageDeadline: Instant
    /// The length of the requested lease, in milliseconds.
    private let ttl: Int64
    private let isLeading: Bool
    private(set) var hasConnected = false
    /// The number of failures since the last answer of the sidecar.
    private(set) var failures = 0
    /// The time to print that the run is waiting for the lock.
    private(set) var noticeAt: Instant

    /// The maximum wait of one request, in milliseconds. A sidecar may shorten longer waits.
    private static let maximumRequestWait = LockSettings().maximumWait.wholeMilliseconds
    /// The minimum pause between requests, in milliseconds, in case a sidecar answers without waiting.
    private static let minimumPause: Int64 = 250
    /// The maximum pause between attempts while the sidecar or its Redis is unreachable, in milliseconds.
    private static let maximumPause: Int64 = 5000
    private static let noticeDelay: Int64 = 2000
    /// The minimum time for which to retry while the sidecar or its Redis is unreachable, in milliseconds.
    private static let minimumOutageTime: Int64 = 10_000

    init(_ purpose: RunPlan.Purpose, ttl: Duration, now: Instant) {
        switch purpose {
        case .once(let wait):
            waitDeadline = now.advanced(byMilliseconds: wait.wholeMilliseconds)
            outageDeadline = max(waitDeadline, now.advanced(byMilliseconds: Self.minimumOutageTime))
            isLeading = false
        case .lead:
            waitDeadline = .distantFuture
            outageDeadline = .distantFuture
            isLeading = true
        }
        self.ttl = ttl.wholeMilliseconds
        noticeAt = now.advanced(byMilliseconds: Self.noticeDelay)
    }

    /// The failures for which a retry is pointless, because the same request would fail again.
    static let refusals: Set<ExitStatus> = [.invalid, .denied, .notSidecar, .versionMismatch]

    /// Returns whether a failure may be temporary, because the sidecar or its Redis is unreachable. Once a sidecar has
    /// answered, another server at its address also counts as temporary.
    func isUnreachable(_ status: ExitStatus) -> Bool {
        status == .unavailable || status == .notSidecar && hasConnected
    }

    /// Call when a sidecar is connected. Returns the request to send.
    mutating func connected(now: Instant) -> Request {
        hasConnected = true
        return request(at: now)
    }

    /// Returns the action that follows from the sidecar's answer to a request that was sent at `sentAt`.
    mutating func answered(isGranted: Bool, request: Request, sentAt: Instant, now: Instant) -> Action {
        failures = 0
        let age = now.millisecondsRoundedUp(since: sentAt)
        if isGranted {
            // The lease counts from the time at which the request was sent, and waiting may have used up most of it. A
            // second request of the same owner renews the lease immediately.
            let isFresh = age <= ttl / 3
            let isUsable = request.wait == 0 && LeaseValidity.remaining(ttl: ttl, sentAt: sentAt, now: now) > 0
            return isFresh || isUsable ? .start : .request(Request(wait: 0, at: now))
        }
        guard now < waitDeadline else { return .giveUp }
        return .request(self.request(at: age < Self.minimumPause ? now.advanced(byMilliseconds: Self.minimumPause) : now))
    }

    /// Call when the sidecar or its Redis cannot be reached.
    /// - Returns: the time of the next attempt; `nil` to stop. A sidecar that was never reached is retried only with
    ///   `--lead`.
    mutating func failed(now: Instant) -> Instant? {
        guard isLeading || hasConnected, now < outageDeadline else { return nil }
        failures += 1
        let pause = min(Self.maximumPause, Self.minimumPause << Int64(min(failures, 8)))
        return min(outageDeadline, now.advanced(byMilliseconds: pause))
    }

    /// Returns whether to print now that the run is waiting. Returns `true` at most once.
    mutating func isNoticeDue(now: Instant) -> Bool {
        guard noticeAt <= now else { return false }
        noticeAt = .distantFuture
        return true
    }

    private func request(at time: Instant) -> Request {
        Request(wait: min(Self.maximumRequestWait, max(0, waitDeadline.millisecondsRoundedUp(since: time))), at: time)
    }
}

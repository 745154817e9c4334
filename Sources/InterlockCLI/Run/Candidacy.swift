import InterlockCommandLine
import InterlockCore

/// Decides how long `interlock run` requests a lock, how long each request waits, and whether a granted lease has
/// enough time left to start the command.
struct Candidacy: Equatable, Sendable {
    /// A request to the sidecar.
    struct Request: Equatable, Sendable {
        /// The time that the sidecar may wait, in milliseconds.
        var waitMilliseconds: Int64
        /// The time at which to send the request.
        var at: Instant
    }

    enum Action: Equatable, Sendable {
        case request(Request)
        /// Run the command. Its lease counts from the time at which the granted request was sent.
        case start
        /// Give up, because another client holds the lock and the wait is over.
        case giveUp
    }

    /// The deadline of the wait while another client holds the lock.
    private let waitDeadline: Instant
    /// The deadline of retries while the sidecar or its Redis is unreachable. It may be later than
    /// `waitDeadline`, so that a run that does not wait survives a brief outage.
    private let outageDeadline: Instant
    private let ttlMilliseconds: Int64
    private let isLeading: Bool
    private(set) var hasConnected = false
    /// The number of unsuccessful attempts since the last answer.
    private(set) var failureCount = 0
    /// The time at which to print that the run is waiting for the lock.
    private(set) var noticeAt: Instant

    /// The maximum wait of one request. A sidecar may shorten longer waits.
    private static let maximumRequestWaitMilliseconds = LockSettings().maximumWait.wholeMilliseconds
    /// The minimum time between requests, in case a sidecar answers without waiting.
    private static let minimumPauseMilliseconds: Int64 = 250
    /// The maximum pause between attempts while the sidecar or its Redis is unreachable.
    private static let maximumPauseMilliseconds: Int64 = 5000
    private static let noticeDelayMilliseconds: Int64 = 2000
    /// The minimum time for which to retry while the sidecar or its Redis is unreachable.
    private static let minimumOutageMilliseconds: Int64 = 10_000

    init(_ purpose: RunPlan.Purpose, ttl: Duration, now: Instant) {
        switch purpose {
        case .once(let wait):
            waitDeadline = now.advanced(byMilliseconds: wait.wholeMilliseconds)
            outageDeadline = max(waitDeadline, now.advanced(byMilliseconds: Self.minimumOutageMilliseconds))
            isLeading = false
        case .lead:
            waitDeadline = .distantFuture
            outageDeadline = .distantFuture
            isLeading = true
        }
        ttlMilliseconds = ttl.wholeMilliseconds
        noticeAt = now.advanced(byMilliseconds: Self.noticeDelayMilliseconds)
    }

    /// The statuses of failures that a retry of the same request would repeat.
    static let refusals: Set<ExitStatus> = [.invalid, .denied, .notSidecar, .versionMismatch]

    /// Returns whether a failure may be temporary, because the sidecar or its Redis is unreachable. After a first
    /// connection, another server at the sidecar's address also counts as temporary.
    func isUnreachable(_ status: ExitStatus) -> Bool {
        status == .unavailable || status == .notSidecar && hasConnected
    }

    /// Records that the run has a connection to a sidecar. Returns the request to send.
    mutating func sidecarConnected(now: Instant) -> Request {
        hasConnected = true
        return makeRequest(at: now)
    }

    /// Handles the sidecar's reply to a request that was sent at `sentAt`. Returns the next action.
    mutating func replyReceived(isGranted: Bool, request: Request, sentAt: Instant, now: Instant) -> Action {
        failureCount = 0
        let ageMilliseconds = now.millisecondsRoundedUp(since: sentAt)
        if isGranted {
            // The lease counts from the time at which the request was sent, so a long wait may have used most of it. A
            // second request with the same token renews the lease immediately.
            let isFresh = ageMilliseconds <= ttlMilliseconds / 3
            let isUsable =
                request.waitMilliseconds == 0
                && LeaseValidity.remainingMilliseconds(ttlMilliseconds: ttlMilliseconds, sentAt: sentAt, now: now) > 0
            return isFresh || isUsable ? .start : .request(Request(waitMilliseconds: 0, at: now))
        }
        guard now < waitDeadline else { return .giveUp }
        guard ageMilliseconds < Self.minimumPauseMilliseconds else { return .request(makeRequest(at: now)) }
        return .request(makeRequest(at: now.advanced(byMilliseconds: Self.minimumPauseMilliseconds)))
    }

    /// Records that the sidecar or its Redis could not be reached.
    /// - Returns: the time of the next attempt; `nil` to stop. Before the first connection, only `--lead` retries.
    mutating func attemptFailed(now: Instant) -> Instant? {
        guard isLeading || hasConnected, now < outageDeadline else { return nil }
        failureCount += 1
        let pauseMilliseconds = min(
            Self.maximumPauseMilliseconds, Self.minimumPauseMilliseconds << Int64(min(failureCount, 8)))
        return min(outageDeadline, now.advanced(byMilliseconds: pauseMilliseconds))
    }

    /// Takes the notice that the run is waiting, if it is due. Returns `true` at most once.
    mutating func takeDueNotice(now: Instant) -> Bool {
        guard noticeAt <= now else { return false }
        noticeAt = .distantFuture
        return true
    }

    private func makeRequest(at time: Instant) -> Request {
        let remainingMilliseconds = max(0, waitDeadline.millisecondsRoundedUp(since: time))
        let waitMilliseconds = min(Self.maximumRequestWaitMilliseconds, remainingMilliseconds)
        return Request(waitMilliseconds: waitMilliseconds, at: time)
    }
}

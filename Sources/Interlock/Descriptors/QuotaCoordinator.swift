internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Divides limits among data planes, which enforce their quotas between reports. Confined to the coordinator's event
/// loop.
final class QuotaCoordinator {
    /// The maximum delay of an assignment on its way to a data plane, in milliseconds. Redis counts a quota for its
    /// lifetime plus this delay, so that no data plane uses a quota that Redis no longer counts.
    static let assignmentTimeoutMilliseconds: Int64 = 5000
    /// The time, in milliseconds, for which Redis counts a quota.
    static var retentionMilliseconds: Int64 { QuotaRate.lifetimeSeconds * 1000 + assignmentTimeoutMilliseconds }
    /// The maximum number of data planes of one bucket.
    static let maximumDataPlanes = 200

    let runtime: CoordinatorRuntime
    let domains: DomainCoordinator
    let unassigned = Counter(label: "interlock_quota_unassigned_total")
    private let buckets = Gauge(label: "interlock_quota_buckets")
    private var sessions: [ObjectIdentifier: QuotaSession] = [:]
    private var sessionsByOrigin: [Origin: Int] = [:]
    /// The data planes that have closed their stream but may still use their assignments.
    private var departed: [(dataPlane: String, origin: Origin, until: Instant)] = []
    /// The origins that have had several data planes, each with the time until which a returning data plane cannot be
    /// identified there.
    private var sharedOrigins: [Origin: Instant] = [:]
    private var lastDataPlaneNumber = 0
    var budget = QuotaBudget()

    /// The domain and the host of a data plane's streams.
    struct Origin: Hashable {
        var domain: String
        var address: String
    }

    private static let maximumOrigins = 1000

    init(runtime: CoordinatorRuntime, domains: DomainCoordinator) {
        self.runtime = runtime
        self.domains = domains
    }

    /// Begins a session for a data plane that has opened a stream.
    /// - Parameters:
    ///   - address: the data plane's host.
    ///   - client: the API key whose limits apply.
    ///   - isReturning: whether the data plane had a stream before.
    /// - Returns: the session; `nil` if there are too many.
    func begin(
        domain: String, address: String, client: String, isReturning: Bool, send: @escaping ([QuotaAction.Assignment]) -> Void
    ) -> QuotaSession? {
        guard budget.beginSession(of: client) else { return nil }
        let origin = Origin(domain: domain, address: address)
        let dataPlane = dataPlane(from: origin, isReturning: isReturning)
        let session = QuotaSession(self, origin, client: client, dataPlane: dataPlane, send: send)
        sessions[ObjectIdentifier(session)] = session
        sessionsByOrigin[origin, default: 0] += 1
        return session
    }

    /// Returns the ID of a data plane. A returning data plane keeps its ID, and with it its quotas, if it is the only
    /// one of its origin. If another data plane got the same ID, the quotas would be used twice.
    private func dataPlane(from origin: Origin, isReturning: Bool) -> String {
        let now = dropExpired()
        let departedIndex = departed.firstIndex { $0.origin == origin }
        let isOnlySession = sessionsByOrigin[origin] == nil
        if let departedIndex, isOnlySession, isReturning, sharedOrigins[origin] == nil,
            sharedOrigins.count < Self.maximumOrigins
        {
            return departed.remove(at: departedIndex).dataPlane
        }
        if departedIndex != nil || !isOnlySession { markShared(origin, now) }
        lastDataPlaneNumber += 1
        return "\(runtime.id):\(lastDataPlaneNumber)"
    }

    private func markShared(_ origin: Origin, _ now: Instant) {
        if sharedOrigins[origin] != nil || sharedOrigins.count < Self.maximumOrigins {
            sharedOrigins[origin] = now.advanced(byMilliseconds: 2 * Self.retentionMilliseconds)
        }
    }

    /// Drops the departed data planes and shared origins whose time has passed.
    /// - Returns: the current time.
    private func dropExpired() -> Instant {
        let now = runtime.time.now()
        departed.removeAll { $0.until <= now }
        sharedOrigins = sharedOrigins.filter { $0.value > now }
        return now
    }

    /// Forgets a session. Its data plane may still use its assignments.
    func sessionEnded(_ session: QuotaSession) {
        let origin = session.origin
        let now = dropExpired()
        sessions[ObjectIdentifier(session)] = nil
        budget.endSession(of: session.client)
        let otherCount = (sessionsByOrigin[origin] ?? 1) - 1
        sessionsByOrigin[origin] = otherCount > 0 ? otherCount : nil
        // Several data planes of this origin may use assignments, and the next to return could be any of them.
        if otherCount > 0 || departed.contains(where: { $0.origin == origin }) { markShared(origin, now) }
        departed.append((session.dataPlane, origin, now.advanced(byMilliseconds: Self.retentionMilliseconds)))
        if departed.count > Self.maximumOrigins { departed.removeFirst() }
    }

    func refreshGauges() { buckets.record(sessions.values.reduce(0) { $0 + $1.bucketCount }) }
}

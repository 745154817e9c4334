internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Divides limits among data planes that enforce their quotas themselves between reports. Confined to the coordinator's
/// event loop.
final class QuotaCoordinator {
    /// The time within which an assignment must arrive; after it the quota would be used although Redis no longer
    /// counts it.
    static let delayMilliseconds: Int64 = 5000
    static var keptMilliseconds: Int64 { QuotaRate.lifetimeSeconds * 1000 + delayMilliseconds }
    /// The maximum number of data planes of one bucket.
    static let maximumDataPlanes = 200

    let runtime: CoordinatorRuntime
    let domains: DomainCoordinator
    let unassigned = Counter(label: "interlock_quota_unassigned_total")
    private let buckets = Gauge(label: "interlock_quota_buckets")
    private var sessions: [ObjectIdentifier: QuotaSession] = [:]
    private var sessionsByOrigin: [Origin: Int] = [:]
    /// Data planes whose stream has ended but which may still use their assignments.
    private var left: [(dataPlane: String, origin: Origin, until: Instant)] = []
    /// Origins that have had several data planes, and the time until which that counts: a returning one cannot be
    /// identified there.
    private var shared: [Origin: Instant] = [:]
    private var lastNumber = 0
    var budget = QuotaBudget()

    /// The source of a data plane's streams.
    struct Origin: Hashable {
        var domain: String
        var address: String
    }

    private static let maximumOrigins = 1000

    init(runtime: CoordinatorRuntime, domains: DomainCoordinator) {
        self.runtime = runtime
        self.domains = domains
    }

    /// Handles a data plane that has opened a stream.
    /// - Parameters:
    ///   - address: the data plane's host.
    ///   - client: the API key whose limits apply.
    ///   - isReturning: whether it had a stream before.
    /// - Returns: `nil` if there are too many sessions.
    func begin(
        domain: String, address: String, client: String, isReturning: Bool, send: @escaping ([QuotaAction.Of]) -> Void
    ) -> QuotaSession? {
        guard budget.beginSession(of: client) else { return nil }
        let origin = Origin(domain: domain, address: address)
        let dataPlane = dataPlane(from: origin, isReturning: isReturning)
        let session = QuotaSession(self, origin, client: client, dataPlane: dataPlane, send: send)
        sessions[ObjectIdentifier(session)] = session
        sessionsByOrigin[origin, default: 0] += 1
        return session
    }

    /// Returns the ID of a data plane. One that returns keeps its ID, and with it its quotas, if it is the only one of
    /// its origin. A different one that got the same ID would use the quotas twice.
    private func dataPlane(from origin: Origin, isReturning: Bool) -> String {
        let now = forgetPast()
        let gone = left.firstIndex { $0.origin == origin }
        let isAlone = sessionsByOrigin[origin] == nil
        if let gone, isAlone, isReturning, shared[origin] == nil, shared.count < Self.maximumOrigins {
            return left.remove(at: gone).dataPlane
        }
        if gone != nil || !isAlone { divide(origin, now) }
        lastNumber += 1
        return "\(runtime.id):\(lastNumber)"
    }

    private func divide(_ origin: Origin, _ now: Instant) {
        if shared[origin] != nil || shared.count < Self.maximumOrigins {
            shared[origin] = now.advanced(byMilliseconds: 2 * Self.keptMilliseconds)
        }
    }

    /// Drops expired entries.
    /// - Returns: the current time.
    private func forgetPast() -> Instant {
        let now = runtime.time.now()
        left.removeAll { $0.until <= now }
        shared = shared.filter { $0.value > now }
        return now
    }

    func ended(_ session: QuotaSession) {
        let origin = session.origin
        let now = forgetPast()
        sessions[ObjectIdentifier(session)] = nil
        budget.endSession(of: session.client)
        let others = (sessionsByOrigin[origin] ?? 1) - 1
        sessionsByOrigin[origin] = others > 0 ? others : nil
        // Both may still use their assignments, and the first to return could be either.
        if others > 0 || left.contains(where: { $0.origin == origin }) { divide(origin, now) }
        left.append((session.dataPlane, origin, now.advanced(byMilliseconds: Self.keptMilliseconds)))
        if left.count > Self.maximumOrigins { left.removeFirst() }
    }

    func refreshGauges() { buckets.record(sessions.values.reduce(0) { $0 + $1.bucketCount }) }
}

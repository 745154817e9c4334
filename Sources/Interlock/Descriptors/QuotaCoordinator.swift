internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Quotas: divides limits among data planes that hold themselves to their parts between reports. Confined to the coordinator's event loop.
final class QuotaCoordinator {
    /// What is told arrives within this time, or the share would count no more while it is used.
    static let delayMilliseconds: Int64 = 5000
    static var keptMilliseconds: Int64 { QuotaRate.lifetimeSeconds * 1000 + delayMilliseconds }
    /// Of one bucket.
    static let mostDataPlanes = 200

    let runtime: CoordinatorRuntime
    let domains: DomainCoordinator
    let unassigned = Counter(label: "interlock_quota_unassigned_total")
    private let buckets = Gauge(label: "interlock_quota_buckets")
    private var sessions: [ObjectIdentifier: QuotaSession] = [:]
    private var sessionsByOrigin: [Origin: Int] = [:]
    /// Data planes whose stream ended, and that go by what they were told still.
    private var left: [(dataPlane: String, origin: Origin, until: Instant)] = []
    /// Where more than one data plane was, and until when that counts: of several it is not known which comes back.
    private var shared: [Origin: Instant] = [:]
    private var lastNumber = 0
    var budget = QuotaBudget()

    /// Where a data plane's streams come from.
    struct Origin: Hashable {
        var domain: String
        var address: String
    }

    private static let mostOrigins = 1000

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
        domain: String, address: String, client: String, isReturning: Bool, tell: @escaping ([QuotaAction.Of]) -> Void
    ) -> QuotaSession? {
        guard budget.beginSession(of: client) else { return nil }
        let origin = Origin(domain: domain, address: address)
        let dataPlane = dataPlane(from: origin, isReturning: isReturning)
        let session = QuotaSession(self, origin, client: client, dataPlane: dataPlane, tell: tell)
        sessions[ObjectIdentifier(session)] = session
        sessionsByOrigin[origin, default: 0] += 1
        return session
    }

    /// One that comes back keeps its shares, where it is the only one. Another that took its place would use them a second time.
    private func dataPlane(from origin: Origin, isReturning: Bool) -> String {
        let now = forgetPast()
        let gone = left.firstIndex { $0.origin == origin }
        let isAlone = sessionsByOrigin[origin] == nil
        if let gone, isAlone, isReturning, shared[origin] == nil, shared.count < Self.mostOrigins {
            return left.remove(at: gone).dataPlane
        }
        if gone != nil || !isAlone { share(origin, now) }
        lastNumber += 1
        return "\(runtime.id):\(lastNumber)"
    }

    private func share(_ origin: Origin, _ now: Instant) {
        if shared[origin] != nil || shared.count < Self.mostOrigins {
            shared[origin] = now.advanced(byMilliseconds: 2 * Self.keptMilliseconds)
        }
    }

    /// - Returns: now.
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
        // Each goes by what it was told, and the first that comes back may be either.
        if others > 0 || left.contains(where: { $0.origin == origin }) { share(origin, now) }
        left.append((session.dataPlane, origin, now.advanced(byMilliseconds: Self.keptMilliseconds)))
        if left.count > Self.mostOrigins { left.removeFirst() }
    }

    func refreshGauges() { buckets.record(sessions.values.reduce(0) { $0 + $1.bucketCount }) }
}

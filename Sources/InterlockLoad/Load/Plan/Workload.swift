/// What a run asks sidecars for.
public enum Workload: String, Hashable, Sendable, Codable, CaseIterable {
    /// Lock cycles: acquire, hold, release.
    case lock
    /// `LIMIT.TAKE`.
    case limit
    /// `PERMIT.ACQUIRE`, a call, `PERMIT.REPORT`.
    case permit
    /// Requests through the guarded proxy.
    case proxy
    /// All of these; see `WorkloadShares`.
    case mixed
}

/// What a mixed run is made of: weights, of whatever sum.
public struct WorkloadShares: Hashable, Sendable {
    public var lock: Double
    public var limit: Double
    public var permit: Double
    public var proxy: Double

    public init(lock: Double = 40, limit: Double = 40, permit: Double = 15, proxy: Double = 5) {
        self.lock = lock
        self.limit = limit
        self.permit = permit
        self.proxy = proxy
    }
}

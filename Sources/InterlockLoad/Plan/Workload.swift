/// The operations of a run.
package enum Workload: String, Hashable, Sendable, Codable, CaseIterable {
    /// Lock cycles: acquire, hold, release.
    case lock
    /// `LIMIT.TAKE`.
    case limit
    /// `PERMIT.ACQUIRE`, a call, `PERMIT.REPORT`.
    case permit
    /// Requests through the guarded proxy.
    case proxy
    /// All operations, weighted by `WorkloadWeights`.
    case mixed
}

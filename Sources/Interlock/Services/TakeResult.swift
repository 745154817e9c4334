package import InterlockCore

/// The result of a request to take from a service's limits.
package enum TakeResult: Sendable {
    case decided(CallDecision)
    /// The decision on the first of `count` calls that were made as one. Each further call leaves `step` less.
    case decidedBatch(CallDecision, count: Int, step: Int64)
    case failed(InterlockError)
}

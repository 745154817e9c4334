package import InterlockCore

/// The answer to a request to take from a service's limits.
package enum TakeAnswer: Sendable {
    case decided(LimitAnswer)
    /// The answer to the first of `count` calls that were made as one. Each further call leaves `step` less.
    case decidedBatch(LimitAnswer, count: Int, step: Int64)
    case failed(InterlockError)
}

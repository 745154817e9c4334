internal import InterlockCore
internal import RedisClient

/// The result of asking a domain's limits about a request.
package enum DescriptorDecision: Sendable {
    case decided(DescriptorAnswer)
    case failed(InterlockError)
}

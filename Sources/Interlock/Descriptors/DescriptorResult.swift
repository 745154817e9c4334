internal import InterlockCore
internal import RedisClient

/// The result of asking a domain's limits about a request.
package enum DescriptorResult: Sendable {
    case decided(RequestDecision)
    case failed(InterlockError)
}

internal import InterlockCore
internal import RedisClient

/// The result of a request to a domain.
package enum DescriptorResult: Sendable {
    case decided(RequestDecision)
    case failed(InterlockError)
}

internal import Hiredis
internal import InterlockCore

/// What was decided about a request for a domain's limits.
package enum DescriptorDecision: Sendable {
    case decided(DescriptorAnswer)
    case failed(InterlockError)
}

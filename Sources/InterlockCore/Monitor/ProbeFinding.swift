/// The finding of one probe.
package enum ProbeFinding: Hashable, Sendable {
    case good
    /// The service did not meet the expectation.
    case bad(ProbeReason)
    /// The prober itself was at fault or was stopped, which says nothing about the service.
    case unjudged(ProbeReason)

    /// The finding's name in the APIs and metrics.
    package var rawName: String {
        switch self {
        case .good: "good"
        case .bad: "bad"
        case .unjudged: "unjudged"
        }
    }

    /// The reason for a finding other than good; `nil` if it is good.
    package var reason: ProbeReason? {
        switch self {
        case .good: nil
        case .bad(let reason), .unjudged(let reason): reason
        }
    }
}

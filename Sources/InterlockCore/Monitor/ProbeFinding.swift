/// The finding of one probe.
package enum ProbeFinding: Hashable, Sendable {
    /// The service met the expectation.
    case good
    /// The service did not meet the expectation.
    case bad(ProbeReason)
    /// The prober failed or was stopped, so the probe says nothing about the service.
    case unjudged(ProbeReason)

    /// The finding's name in the APIs and metrics.
    package var rawName: String {
        switch self {
        case .good: "good"
        case .bad: "bad"
        case .unjudged: "unjudged"
        }
    }

    /// The reason for the finding; `nil` if it is good.
    package var reason: ProbeReason? {
        switch self {
        case .good: nil
        case .bad(let reason), .unjudged(let reason): reason
        }
    }
}

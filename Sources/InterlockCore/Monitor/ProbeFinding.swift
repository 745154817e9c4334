/// What one probe found.
package enum ProbeFinding: Hashable, Sendable {
    case good
    /// The service is not as it should be.
    case bad(ProbeReason)
    /// The prober itself was at fault, or was stopped: this says nothing of the service.
    case unjudged(ProbeReason)

    /// As the doors and the metrics say it.
    package var word: String {
        switch self {
        case .good: "good"
        case .bad: "bad"
        case .unjudged: "unjudged"
        }
    }

    /// Why it was not good; `nil`: it was.
    package var reason: ProbeReason? {
        switch self {
        case .good: nil
        case .bad(let reason), .unjudged(let reason): reason
        }
    }
}

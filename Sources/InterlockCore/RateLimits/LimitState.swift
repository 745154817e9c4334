/// The state of one limit of a service.
public struct LimitState: Hashable, Sendable {
    /// The name of the limit's algorithm: `fixed`, `sliding` or `gcra`. A newer sidecar may send another name.
    public var algorithm: String
    /// The window's length.
    public var window: Duration
    /// Whether each subject has its own count.
    public var isPerSubject: Bool
    /// Whether the limit only counts calls, and refuses no call.
    public var isShadow: Bool
    package let callDecision: CallDecision

    package init(algorithm: String, window: Duration, isPerSubject: Bool, isShadow: Bool, callDecision: CallDecision) {
        self.algorithm = algorithm
        self.window = window
        self.isPerSubject = isPerSubject
        self.isShadow = isShadow
        self.callDecision = callDecision
    }

    package init(definition: LimitDefinition, callDecision: CallDecision) {
        self.init(
            algorithm: definition.algorithm.name.rawValue, window: definition.window,
            isPerSubject: definition.isPerSubject, isShadow: definition.isShadow, callDecision: callDecision)
    }

    /// The decision that a call of cost 1 would get if this were the only limit. A shadow limit grants every call.
    public var decision: LimitDecision { LimitDecision(callDecision) }

    /// Returns the limit that binds: the one that refuses for the longest time, or if no limit refuses, the one with
    /// the least remaining. A shadow limit binds only if all limits are shadows.
    package static func binding(of states: [LimitState]) -> LimitState? {
        let enforced = states.filter { !$0.isShadow }
        return (enforced.isEmpty ? states : enforced).max { left, right in
            (left.callDecision.retryAfterMilliseconds ?? 0, -left.callDecision.remaining)
                < (right.callDecision.retryAfterMilliseconds ?? 0, -right.callDecision.remaining)
        }
    }
}

/// The former name of `LimitState`.
@available(*, deprecated, renamed: "LimitState") public typealias LimitStanding = LimitState

/// The state of one limit of a service.
public struct LimitState: Hashable, Sendable {
    /// The name of the limit's algorithm: `fixed`, `sliding` or `gcra`. Newer sidecars may have more.
    public var algorithm: String
    /// The window's length.
    public var window: Duration
    /// Whether each subject has its own count.
    public var isPerSubject: Bool
    /// Whether the limit only counts calls and refuses none.
    public var isShadow: Bool
    package let answer: CallDecision

    package init(algorithm: String, window: Duration, isPerSubject: Bool, isShadow: Bool, answer: CallDecision) {
        self.algorithm = algorithm
        self.window = window
        self.isPerSubject = isPerSubject
        self.isShadow = isShadow
        self.answer = answer
    }

    package init(definition: LimitDefinition, answer: CallDecision) {
        self.init(
            algorithm: definition.algorithm.name.rawValue, window: definition.window,
            isPerSubject: definition.isPerSubject, isShadow: definition.isShadow, answer: answer)
    }

    /// The decision that a call of cost 1 would get if this were the only limit. A shadow grants every call.
    public var decision: LimitDecision { LimitDecision(answer) }

    /// Returns the limit that binds: the one that refuses for the longest time, or otherwise the one with the least
    /// remaining. A shadow binds only if every limit is a shadow.
    package static func binding(of states: [LimitState]) -> LimitState? {
        let real = states.filter { !$0.isShadow }
        return (real.isEmpty ? states : real).max { left, right in
            (left.answer.retryAfter ?? 0, -left.answer.remaining) < (right.answer.retryAfter ?? 0, -right.answer.remaining)
        }
    }
}

/// The former name of `LimitState`.
@available(*, deprecated, renamed: "LimitState") public typealias LimitStanding = LimitState

public import InterlockCore

/// Whether a call may be made, by the limit that binds.
public struct LimitDecision: Hashable, Sendable {
    /// The call may be made, and counts.
    public var isTaken: Bool
    /// The name of the limit that binds; `nil`: the service has none.
    public var limit: String?
    /// How much that limit allows in its window.
    public var capacity: Int
    /// What is left of it.
    public var remaining: Int
    /// When the same call can be granted; `nil`: it was granted now.
    public var retryAfter: Duration?
    /// When that limit is whole again, if nothing else is taken.
    public var resetAfter: Duration

    init(_ answer: LimitAnswer) {
        isTaken = answer.isTaken
        limit = answer.limitName
        capacity = Int(answer.limit)
        remaining = Int(answer.remaining)
        retryAfter = answer.retryAfter.map { .milliseconds($0) }
        resetAfter = .milliseconds(answer.resetAfter)
    }
}

/// Where one limit of a service stands.
public struct LimitStanding: Hashable, Sendable {
    /// The limit as it is configured.
    public let definition: LimitDefinition
    package let answer: LimitAnswer

    /// What a call of cost 1 would be told if this were the only limit; a shadow refuses nobody.
    public var decision: LimitDecision { LimitDecision(answer) }

    /// The one that binds: what refuses for longest, else what has least left. Shadows only when there is nothing else.
    package static func binding(of standings: [LimitStanding]) -> LimitStanding? {
        let real = standings.filter { !$0.definition.isShadow }
        return (real.isEmpty ? standings : real).max { left, right in
            (left.answer.retryAfter ?? 0, -left.answer.remaining) < (right.answer.retryAfter ?? 0, -right.answer.remaining)
        }
    }
}

/// The decision of a domain's limits about one request.
package struct RequestDecision: Hashable, Sendable {
    /// The reason for a refusal.
    package enum Cause: String, Sendable {
        /// A limit is reached.
        case limit
        /// Redis is unreachable or late, and this sidecar's quota of a limit is used up.
        case local
        /// Redis is unreachable or late, and the domain refuses everything meanwhile. The amount left is unknown.
        case redis
    }

    /// Whether the request is over a limit that refuses it.
    package var isOverLimit: Bool
    /// The status of each descriptor, in order.
    package var statuses: [DescriptorStatus]
    /// The reason for the refusal, if the request is refused.
    package var cause: Cause

    package init(isOverLimit: Bool, statuses: [DescriptorStatus], cause: Cause = .limit) {
        self.isOverLimit = isOverLimit
        self.statuses = statuses
        self.cause = cause
    }
}

extension RequestDecision {
    /// The status of the descriptor whose limit binds: a descriptor over its limit, or otherwise the one with the least
    /// remaining; `nil` if no descriptor is limited. Shadow limits never bind.
    package var binding: DescriptorStatus? {
        var tightest: DescriptorStatus?
        for status in statuses {
            guard case .limited = status.bound, !status.isShadow else { continue }
            guard let former = tightest else {
                tightest = status
                continue
            }
            let isTighter = status.isOverLimit == former.isOverLimit && status.remaining < former.remaining
            if isTighter || status.isOverLimit && !former.isOverLimit { tightest = status }
        }
        return tightest
    }
}

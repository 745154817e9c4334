internal import Interlock
package import InterlockCore

extension HTTPProblem {
    /// Returns the problem of a call that a breaker, a rate limit or the concurrency limit refuses.
    /// - Parameters:
    ///   - retryAfterMilliseconds: the time until a retry; -1 if it is unknown.
    ///   - cause: the reason why the breaker is open.
    ///   - limits: the limits of the service.
    package static func refused(
        _ reason: PermitResult.Reason, _ state: BreakerSnapshot.State, service: String, subject: String?,
        retryAfter retryAfterMilliseconds: Int64, cause: @autoclosure () -> String, limits: [LimitDefinition]
    ) -> HTTPProblem {
        var problem = refused(reason, state, service: service, retryAfter: retryAfterMilliseconds)
        switch reason {
        case .open:
            problem.fields["cause"] = .string(cause())
        case .limited:
            problem.fields["cause"] = .string("limit")
            let applicable = limits.filter { !$0.isShadow && (subject != nil || !$0.isPerSubject) }
            // The refusal does not name the limit, so it is known only if there is just one.
            let name = applicable.count == 1 ? applicable[0].name : nil
            if let name { problem.fields["name"] = .string(name) }
            let limit = name.map { "the limit \"\($0)\"" } ?? "a limit"
            problem.detail =
                "\(limit) of the service \"\(service)\" is reached; try again in \(retryAfterMilliseconds) ms"
            let decision = bindingLimitDecision(limits, retryAfterMilliseconds, hasSubject: subject != nil)
            RateLimitFields(decision, limits: limits, hasSubject: subject != nil).add(to: &problem.headers)
        case .busy:
            problem.fields["cause"] = .string("concurrency")
        }
        return problem
    }

    /// Guesses the decision of the limit that refused a permit, because the refusal contains only the wait. Picks the
    /// limit with the shortest window that is at least as long as the wait.
    private static func bindingLimitDecision(
        _ limits: [LimitDefinition], _ retryAfterMilliseconds: Int64, hasSubject: Bool
    ) -> CallDecision {
        let candidates = limits.filter { !$0.isShadow && (hasSubject || !$0.isPerSubject) }
        let fitting = candidates.filter { $0.windowMilliseconds >= retryAfterMilliseconds }
        let limit = (fitting.isEmpty ? candidates : fitting).min { $0.windowMilliseconds < $1.windowMilliseconds }
        return CallDecision(
            .refused(retryAfterMilliseconds: retryAfterMilliseconds), limit: limit?.limit ?? 0, remaining: 0,
            resetAfterMilliseconds: retryAfterMilliseconds, limitName: limit?.name)
    }
}

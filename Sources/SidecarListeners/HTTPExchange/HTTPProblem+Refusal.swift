internal import Interlock
package import InterlockCore

extension HTTPProblem {
    /// Returns the problem of a call that a breaker, a rate limit or the concurrency limit refuses.
    /// - Parameters:
    ///   - retryAfter: the wait in milliseconds; -1 if it is unknown.
    ///   - cause: the reason why the breaker is open.
    ///   - limits: the limits of the service.
    package static func refused(
        _ reason: PermitResult.Reason, _ state: BreakerSnapshot.State, service: String, subject: String?, retryAfter: Int64,
        cause: @autoclosure () -> String, limits: [LimitDefinition]
    ) -> HTTPProblem {
        var problem = refused(reason, state, service: service, retryAfter: retryAfter)
        switch reason {
        case .open:
            problem.fields["cause"] = .string(cause())
        case .limited:
            problem.fields["cause"] = .string("limit")
            let applicable = limits.filter { !$0.isShadow && (subject != nil || !$0.isPerSubject) }
            // The verdict does not say which of several limits refused.
            let name = applicable.count == 1 ? applicable[0].name : nil
            if let name { problem.fields["name"] = .string(name) }
            let limit = name.map { "the limit \"\($0)\"" } ?? "a limit"
            problem.detail = "\(limit) of the service \"\(service)\" is reached; try again in \(retryAfter) ms"
            RateLimitFields(binding(limits, retryAfter, hasSubject: subject != nil), limits: limits, hasSubject: subject != nil)
                .add(to: &problem.headers)
        case .busy:
            problem.fields["cause"] = .string("concurrency")
        }
        return problem
    }

    /// Guesses the limit that refused a permit, because the refusal has only the wait: the limit with the shortest
    /// window that is at least as long.
    private static func binding(_ limits: [LimitDefinition], _ retryAfter: Int64, hasSubject: Bool) -> CallDecision {
        let candidates = limits.filter { !$0.isShadow && (hasSubject || !$0.isPerSubject) }
        let fitting = candidates.filter { $0.windowMilliseconds >= retryAfter }
        let limit = (fitting.isEmpty ? candidates : fitting).min { $0.windowMilliseconds < $1.windowMilliseconds }
        return CallDecision(
            .refused(retryAfter: retryAfter), limit: limit?.limit ?? 0, remaining: 0, resetAfter: retryAfter,
            limitName: limit?.name)
    }
}

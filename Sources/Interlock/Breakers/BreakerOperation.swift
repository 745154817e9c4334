package import InterlockCore
internal import RedisClient

/// An operation on a breaker, with its arguments. Each operation has a script.
package enum BreakerOperation: Sendable {
    /// Reads the state; restores it from `known` if Redis has lost it.
    case sync(known: BreakerSnapshot?, configuration: String, declares: Bool)
    case report(OutcomeSums, expect: Int64, retryAfter: Int64?)
    /// Votes to open the breaker; `pause` is the wait that the upstream asked for.
    case vote(BreakerCause, expect: Int64, pause: Int64?)
    case trip(BreakerCause, expect: Int64, openFor: ClosedRange<Duration>, pause: Int64?)
    case halfOpen(expect: Int64)
    case trial(id: String, lifetime: Int64, known: Int64)
    case trialOutcome(id: String, Outcome, expect: Int64, retryAfter: Int64?, pause: Int64?)
    case close(BreakerCause, expect: Int64)
    /// Reports an outage, which lasts for `lapse` milliseconds unless it is reported again; with `quorum`, that many
    /// sidecars must report it. A confirmation counts only if another sidecar has reported the outage. Has no effect if
    /// the breaker's generation is lower than `known`, because Redis has lost its state.
    case down(reason: String, lapse: Int64, quorum: Int?, isConfirmation: Bool, known: Int64)
    case up(expect: Int64, isFollowedByTrial: Bool, quorum: Int?)
    /// Forces the state, or ends a forced state. The new generation is always higher than `known`.
    case force(BreakerSnapshot.Forced?, forMilliseconds: Int64?, reason: String, known: Int64)
}

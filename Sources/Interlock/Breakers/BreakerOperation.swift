package import InterlockCore
internal import RedisClient

/// An operation on a breaker, with its own arguments. Each has a script.
package enum BreakerOperation: Sendable {
    /// Reads; restores what Redis has lost from `known`.
    case sync(known: BreakerSnapshot?, configuration: String, declares: Bool)
    case report(OutcomeSums, expect: Int64, retryAfter: Int64?)
    /// This sidecar finds the service bad; `pause` is what the upstream asked for.
    case vote(BreakerCause, expect: Int64, pause: Int64?)
    case trip(BreakerCause, expect: Int64, openFor: ClosedRange<Duration>, pause: Int64?)
    case halfOpen(expect: Int64)
    case trial(id: String, lifetime: Int64, known: Int64)
    case trialOutcome(id: String, Outcome, expect: Int64, retryAfter: Int64?, pause: Int64?)
    case close(BreakerCause, expect: Int64)
    /// Stands for `lapse` milliseconds unless it is said again; with `quorum` so many sidecars must say it. Nothing is changed in a
    /// state older than the generation `known`. One that only seconds says nothing by itself.
    case down(reason: String, lapse: Int64, quorum: Int?, isSeconding: Bool, known: Int64)
    case up(expect: Int64, isFollowedByTrial: Bool, quorum: Int?)
    /// Forces the state, or ends that. The new generation is always later than `known`.
    case force(BreakerSnapshot.Forced?, forMilliseconds: Int64?, reason: String, known: Int64)
}

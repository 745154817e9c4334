package import InterlockCore
internal import RedisClient

/// An operation on a breaker, with its arguments. Each operation has its own script.
package enum BreakerOperation: Sendable {
    /// Reads the state. If Redis has lost it, restores it from `knownSnapshot`.
    case sync(knownSnapshot: BreakerSnapshot?, configurationDigest: String, registersConfiguration: Bool)
    case report(OutcomeSums, expectedGeneration: Int64, retryAfterMilliseconds: Int64?)
    /// Votes to open the breaker; `pauseMilliseconds` is the wait that the upstream asked for.
    case vote(BreakerCause, expectedGeneration: Int64, pauseMilliseconds: Int64?)
    case trip(BreakerCause, expectedGeneration: Int64, openFor: ClosedRange<Duration>, pauseMilliseconds: Int64?)
    case halfOpen(expectedGeneration: Int64)
    case trial(id: String, lifetimeMilliseconds: Int64, knownGeneration: Int64)
    case trialOutcome(id: String, Outcome, expectedGeneration: Int64, retryAfterMilliseconds: Int64?, pauseMilliseconds: Int64?)
    case close(BreakerCause, expectedGeneration: Int64)
    /// Reports an outage, which lasts for `lifetimeMilliseconds` unless it is reported again. If `quorum` is set, that
    /// number of sidecars must report it. A confirmation counts only if another sidecar has reported the outage. Has no
    /// effect if the breaker's generation is below `knownGeneration`, because Redis has then lost its state.
    case down(reason: String, lifetimeMilliseconds: Int64, quorum: Int?, isConfirmation: Bool, knownGeneration: Int64)
    case up(expectedGeneration: Int64, isFollowedByTrial: Bool, quorum: Int?)
    /// Forces the state, or ends a forced state. The new generation is always higher than `knownGeneration`.
    case force(BreakerSnapshot.Forced?, durationMilliseconds: Int64?, reason: String, knownGeneration: Int64)
}

/// A step that a service's gate asks its executor to take.
package enum GateStep {
    /// Call `proceed` for this call, which got a slot or resumes after a pause.
    case proceed(GateCall)
    /// Request a trial permit from Redis. The call keeps the grant of the limits meanwhile.
    case requestTrial(GateCall)
    /// Request the grant of the limits. `waitMilliseconds` is the maximum time for which the call may wait in the
    /// limiter.
    case requestLimits(GateCall, waitMilliseconds: Int64)
    /// Issue a permit.
    case grant(GateCall)
    /// Answer with a refusal.
    case refuse(GateCall, PermitResult.Reason, retryAfterMilliseconds: Int64)
    /// Refuse as busy, because too many permits are unreported.
    case refuseForUnreported(GateCall)
    /// Answer that the service is no longer configured.
    case failUnconfigured(GateCall)
    /// Refund the call's cost to the limits.
    case refund(GateCall)
    /// Return an unused trial permit of this generation to the fleet.
    case returnTrial(PermitID, generation: Int64)
    /// Close the breaker if only a limit keeps it half-open.
    case closeAfterLimit
    /// Call `slotTimerFired` at this time.
    case wakeForSlots(at: Instant)
    /// Call `reevaluatePause` at this time.
    case wakeForPause(at: Instant)
}

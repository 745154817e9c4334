/// The calls that wait for a slot or through a pause of the service.
extension ServiceGate {
    // MARK: - Slots

    /// Frees the slots of lapsed permits, and returns whether no slot is left for a new call.
    mutating func reclaimSlotsAndCheckFull(now: Instant) -> Bool {
        guard bulkhead.isFull else { return false }
        removeLapsed(now: now)
        assignSlots(now: now)
        return bulkhead.isFull
    }

    /// Releases what the call holds, and then gives it a slot, queues it for one, or refuses it.
    mutating func queueForSlot(_ call: GateCall, now: Instant) -> GateStep? {
        release(call, now: now)
        switch bulkhead.enter(
            call.number, of: call.subject, hasWaited: call.hasWaited, deadline: deadline(of: call), now: now)
        {
        case .taken:
            call.hasSlot = true
            return .proceed(call)
        case .waiting:
            enqueue(call, in: .slot)
            scheduleSlotTimer()
            return nil
        case .full:
            return .refuse(call, .busy, retryAfterMilliseconds: bulkhead.retryMilliseconds)
        }
    }

    /// Gives free slots to waiting calls, and refuses the calls whose deadline has passed.
    mutating func assignSlots(now: Instant) {
        guard bulkhead.waitingCount > 0 else { return }
        let assignment = bulkhead.assignSlots(now: now)
        for call in assignment.expired.compactMap({ waitingCalls.removeValue(forKey: $0) }) {
            effects.append(.refuse(call, .busy, retryAfterMilliseconds: bulkhead.retryMilliseconds))
        }
        for call in assignment.admitted.compactMap({ waitingCalls.removeValue(forKey: $0) }) {
            call.hasSlot = true
            effects.append(.proceed(call))
        }
        scheduleSlotTimer()
    }

    private mutating func scheduleSlotTimer() {
        if let wakeUpAt = nextSlotTimer { effects.append(.wakeForSlots(at: wakeUpAt)) }
    }

    /// The next time at which a wait for a slot ends or a permit may lapse; `nil` if no call waits. O(waiting).
    package var nextSlotTimer: Instant? {
        bulkhead.nextDeadline.map { min($0, permits.nextLapse ?? $0) }
    }

    /// Handles the timer that `wakeForSlots` set: a deadline may have passed, or a permit may have lapsed.
    package mutating func slotTimerFired(now: Instant) -> GateSteps {
        removeLapsed(now: now)
        assignSlots(now: now)
        return steps(nil)
    }

    /// Frees the slot of a call whose outcome was reported.
    package mutating func freeSlot(heldForMilliseconds holdMilliseconds: Int64, now: Instant) -> GateSteps {
        bulkhead.release(heldForMilliseconds: holdMilliseconds)
        assignSlots(now: now)
        return steps(nil)
    }

    /// Removes the permits that lapsed without a report, and frees their slots.
    private mutating func removeLapsed(now: Instant) {
        while permits.removeLapsed(now: now) != nil { bulkhead.release(heldForMilliseconds: nil) }
    }

    // MARK: - Pauses

    /// Queues a new call behind those that wait through a pause, or refuses it.
    mutating func queueBehindPaused(_ call: GateCall, now: Instant) -> GateStep? {
        if pause(call, earliest: now, now: now) {
            resume(now: now)
            return nil
        }
        let gate = pauseState(now: now)
        return .refuse(call, gate.reason, retryAfterMilliseconds: gate.retryMilliseconds(now: now))
    }

    /// Queues the call until the pause ends. Returns `false` if its deadline is too early or the queue is full.
    mutating func pause(_ call: GateCall, earliest: Instant, now: Instant) -> Bool {
        guard let deadline = deadline(of: call),
            paused.insert(
                call.number, of: call.subject, hasWaited: call.hasWaited, deadline: deadline, earliest: earliest)
        else { return false }
        enqueue(call, in: .pause)
        schedulePauseTimer(now: now)
        return true
    }

    /// Resumes the paused calls that the breaker admits, and refuses those that cannot wait long enough.
    private mutating func resume(now: Instant) {
        guard !paused.isEmpty else { return }
        let gate = pauseState(now: now)
        let decision = paused.decide(gate, now: now)
        for refusal in decision.refused {
            guard let call = waitingCalls.removeValue(forKey: refusal.number) else { continue }
            effects.append(.refuse(call, gate.reason, retryAfterMilliseconds: refusal.retryAfterMilliseconds))
        }
        effects += decision.sent.compactMap { waitingCalls.removeValue(forKey: $0) }.map { .proceed($0) }
        schedulePauseTimer(now: now)
    }

    private mutating func schedulePauseTimer(now: Instant) {
        guard let next = paused.nextWakeUp(pauseState(now: now), now: now) else { return }
        effects.append(.wakeForPause(at: next))
    }

    /// Re-evaluates the paused calls after a change of the breaker, or when the timer that `wakeForPause` set fires.
    package mutating func reevaluatePause(now: Instant) -> GateSteps {
        resume(now: now)
        return steps(nil)
    }

    /// Re-evaluates the waiting calls after a change of the definition.
    package mutating func reconsider(now: Instant) -> GateSteps {
        assignSlots(now: now)
        resume(now: now)
        return steps(nil)
    }

    private mutating func enqueue(_ call: GateCall, in stage: GateCall.Stage) {
        call.stage = stage
        call.hasWaited = true
        waitingCalls[call.number] = call
    }

    /// The breaker's effect on paused calls.
    func pauseState(now: Instant) -> PausedCalls.Gate {
        switch breaker.admission(now: now) {
        case .allow: breaker.actingState(now: now) == .closed ? .clear : .trial
        // After any other cause, each call requests its own trial permit, and is refused without one.
        case .requestTrial: .clear
        case .refuse(let retryAfterMilliseconds):
            isPausedByLimit(now: now)
                ? .paused(until: now.advanced(byMilliseconds: retryAfterMilliseconds))
                : .refusing(retryAfterMilliseconds: retryAfterMilliseconds)
        }
    }

    private func isPausedByLimit(now: Instant) -> Bool {
        if let trip = breaker.localTrip(now: now) { trip.cause == .limit } else { breaker.isOpenByLimit }
    }
}

extension PausedCalls.Gate {
    fileprivate var reason: PermitResult.Reason {
        switch self {
        case .clear, .trial: .limited
        case .paused, .refusing: .open
        }
    }
}

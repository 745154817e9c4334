"""Known bugs in the product's Swift code. Each breaks one rule, and the simulation must find it.

A bug replaces text that occurs exactly once in a file. The simulation must report one of its `promises` as broken, by
the raw value of `Invariant`. Bugs of one target are adjacent, so that less is rebuilt between them.

A few rules are missing, because no client of the simulation can detect that they are broken. The last comment lists
them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    name: str
    #: The name of a file in any directory below `Sources`.
    file: str
    old: str
    new: str
    #: The promises of which the simulation must report at least one as broken.
    promises: tuple[str, ...]
    #: Arguments of `interlock bench` for a real run that shows the bug too; empty if none is known.
    bench: tuple[str, ...] = ()
    #: The test of the simulation that shows the bug, where worlds that show it are rare.
    story: str = ""


#: Two holders of one lease are visible in their beliefs, their writes or their fences.
TWO_HOLDERS = ("exclusion", "fenced-writes", "rising-fences")

BUGS = [
    # ---- Locks
    # the Redis clock may run faster than the holder's.
    Bug(
        "drift-not-subtracted",
        "LeaseValidity.swift",
        "        ttlMilliseconds / 100 + 2\n",
        "        0\n",
        TWO_HOLDERS,
    ),
    Bug("quorum-of-half", "QuorumTally.swift", "{ servers / 2 + 1 }", "{ servers / 2 }", TWO_HOLDERS),
    Bug(
        "quorum-waiter-tries-once",
        "QuorumQueue.swift",
        "return isWoken || head != id ? attemptHead() : .pause(head)",
        "return isWoken || head != id ? attemptHead() : .none",
        ("free-locks",),
    ),
    Bug(
        "quorum-refusal-not-cleaned-up",
        "QuorumAttempt.swift",
        "        case .giveUp(.held):\n            freeEverywhere()\n",
        "        case .giveUp(.held):\n",
        ("free-locks",),
        story="SimulationTests.QuorumFaultTests/refusedByQuorum\\(",
    ),
    Bug(
        "quorum-wait-ends-unanswered",
        "QuorumLocks.swift",
        "if let error { fail(waiter, error) } else { refuse(waiter) }",
        "if let error { fail(waiter, error) }",
        ("answers",),
    ),
    # A server that restarted empty stays empty, so the next restart destroys the majority.
    Bug(
        "quorum-renewal-restores-nothing",
        "QuorumRenewal.swift",
        "guard case .renewed(let fence?, let isCertain) = phase else { return [] }",
        "guard case .renewed(let fence?, let isCertain) = phase, fence < 0 else { return [] }",
        ("kept-leases", "exclusion"),
    ),
    Bug(
        "quorum-restores-without-a-majority",
        "QuorumRenewal.swift",
        "        case .no:\n            return end(.lost)\n",
        "        case .no:\n            phase = .renewed(fence: recordedFences.max(), isCertain: false)\n"
        "            return Step(answer: .lost, restores: restores(on: votes.indices, now: now))\n",
        TWO_HOLDERS,
        story="SimulationTests.QuorumRestartScenarioTests/noMajority\\(",
    ),
    # Cleanup after one attempt ends the lease that a later attempt was granted.
    Bug(
        "quorum-attempts-share-a-token",
        "QuorumLocks.swift",
        "token: runtime.token(for: waiter.request),",
        'token: waiter.request.owner ?? "waiter/\\(runtime.id)\\(waiter.startedAt.nanoseconds)",',
        TWO_HOLDERS,
        story="SimulationTests.QuorumFaultTests/clearedAwayLater\\(",
    ),
    # A client receives "held", and is still granted the lock.
    Bug(
        "wait-ends-while-its-turn-comes",
        "LockCoordinator.swift",
        "queue.hasCommandInFlight(for: [waiter] + queue.copies(of: waiter))",
        "waiter.mayHold, queue.machine.isAttempting(waiter.id)",
        ("free-locks",),
    ),
    # No client gets a free lock that several clients request concurrently.
    Bug(
        "split-vote-is-held",
        "QuorumLocks.swift",
        "guard case .contended = outcome, mayRetry, attempts < QuorumRetry.maximumAttempts else {",
        "guard case .contended = outcome, mayRetry, attempts < 0 else {",
        ("free-locks",),
        story="SimulationTests.QuorumFaultTests/splitVote\\(",
    ),
    # The claim window applies to the sidecar that is notified, not to the waiter that is granted the lock.
    Bug(
        "hand-over-for-claim-window",
        "LockCoordinator+PassingOn.swift",
        "token: succession.waiter.token, ttlMilliseconds: succession.waiter.request.ttlMilliseconds,",
        "token: succession.waiter.token, ttlMilliseconds: LockQueue.claimWindowMilliseconds,",
        TWO_HOLDERS,
    ),
    Bug(
        "lost-lease-renewed",
        "LockCoordinator+Holders.swift",
        "            leases.recordEnd(name, token: script.token, fence: script.fence, .lost, now: runtime.time.now())\n"
        "            completion(.lost)\n",
        "            completion(.renewed(validMilliseconds: script.ttlMilliseconds))\n",
        TWO_HOLDERS,
    ),
    Bug(
        "wait-ends-unanswered-without-redis",
        "LockCoordinator.swift",
        "        if let failure = queue(waiter.request.name.text)?.failure {\n            fail(waiter, InterlockError(failure))\n",
        "        if queue(waiter.request.name.text)?.failure != nil {\n            runtime.metrics.locksFailed.increment()\n",
        ("answers",),
    ),
    Bug(
        "outage-forgets-waiters",
        "LockCoordinator.swift",
        "let allWaiters = (Array(waiters.values) + Array(attempting.values)).sorted",
        "let allWaiters = Array(attempting.values).sorted",
        ("answers",),
        # The deadline of the wait answers the waiter too, but much later.
        story="SimulationTests.LockFaultTests/waitersFail\\(",
    ),
    Bug(
        "joint-acquisition-keeps-its-locks",
        "JointAcquisition.swift",
        "        releaseAll()\n        completion(result)\n",
        "        completion(result)\n",
        ("free-locks",),
    ),
    # A lease whose owner chose the token is not released with its connection. It must expire.
    Bug(
        "linked-lease-outlives-its-follower",
        "FollowedLeaseRegistry.swift",
        "        guard let entry = followed.removeValue(forKey: id) else { return }\n"
        "        let wasLinked = entry.lease.isAutoRenewed\n",
        "        guard let entry = followed.removeValue(forKey: id), id == 0 else { return }\n"
        "        let wasLinked = entry.lease.isAutoRenewed\n",
        ("free-locks",),
    ),
    # ---- Limits
    # Capacity that becomes free elsewhere is not noticed.
    Bug(
        "refusal-trusted-until-its-end",
        "RefusalMemory.swift",
        "static let maximumAgeMilliseconds: Int64 = 1000",
        "static let maximumAgeMilliseconds: Int64 = 86_400_000",
        ("refusals", "answers"),
        story="SimulationTests.LimitFaultTests/rememberedTooLong\\(",
    ),
    # A sidecar that was alone keeps its whole quota.
    Bug(
        "quota-not-recomputed",
        "LocalQuota.swift",
        "guard newDefinition != unchanged || sidecars != self.sidecars else { return self }",
        "guard newDefinition != unchanged else { return self }",
        ("limits",),
        story="SimulationTests.LimitFaultTests/beganAlone\\(",
    ),
    # A trial is held while its call waits for its turn.
    Bug(
        "trial-kept-while-waiting",
        "ServiceGate.swift",
        "let mayWait = !pausesAtLimit && !call.isTrial && !call.hasSlot",
        "let mayWait = !pausesAtLimit && !call.hasSlot",
        ("half-open", "recovery", "open-breakers"),
        story="SimulationTests.BreakerFaultTests/trialAtALimit\\(",
    ),
    # The sidecar remembers a refusal forever.
    Bug(
        "refusal-never-forgotten",
        "RefusalMemory.swift",
        "        guard refusal.until > now else {\n",
        "        if refusal.until <= now { return (refusal, now.advanced(byMilliseconds: 60_000)) }\n"
        "        guard refusal.until > now else {\n",
        ("limits-refill", "refusals"),
    ),
    Bug(
        "reload-loses-waiters",
        "ServiceLimiter.swift",
        "        for waiter in waiting { next.arrived.append(waiter.request, sequence: waiter.sequence) }\n",
        "",
        ("answers",),
    ),
    Bug(
        "quota-not-divided",
        "LocalQuota.swift",
        "        let sidecarCount = Int64(max(1, sidecars))\n",
        "        let sidecarCount = Int64(1)\n",
        ("limits",),
    ),
    Bug(
        "local-grants-not-counted",
        "LocalCounters.swift",
        "            quotas[index]?.take(cost, now: now)\n",
        "",
        ("limits",),
    ),
    Bug(
        "fleet-of-one",
        "FleetCoordinator.swift",
        "members = reply.members\n",
        "members = reply.members.filter { $0 == runtime.id }\n",
        ("limits",),
        story="SimulationTests.LimitFaultTests/sideBySide\\(",
    ),
    # A granted permit's cost is refunded.
    Bug(
        "granted-permit-refunded",
        "ServiceExecutor+Limits.swift",
        "            return limitsDecided(permit, of: service, resolution.decision, charges: charges) ? 1 : 0\n",
        "            _ = limitsDecided(permit, of: service, resolution.decision, charges: charges)\n            return 0\n",
        ("limits",),
    ),
    Bug(
        "refund-lost",
        "ServiceExecutor+Limits.swift",
        "            sendRefunds(Array(pendingRefunds.prefix(Self.maximumRefundsPerScript)), to: service)\n",
        "",
        ("limits",),
        story="SimulationTests.LimitFaultTests/refundedTogether\\(",
    ),
    Bug(
        "limit-wait-ends-unanswered",
        "ServiceExecutor+Limits.swift",
        "            for resolution in expired { deliverRefusal(service, resolution, cost: 1) }\n",
        "            for resolution in expired { service.metrics.limited.increment(by: resolution.calls.count) }\n",
        ("answers",),
    ),
    # ---- Breakers and permits
    # Change notifications arrive over a different connection than replies, and may overtake them.
    Bug(
        "generation-not-compared",
        "Breaker.swift",
        "        guard newSnapshot.generation >= snapshot.generation else { return false }\n"
        "        let isNewGeneration = newSnapshot.generation > snapshot.generation\n",
        "        let isNewGeneration = newSnapshot.generation != snapshot.generation\n",
        ("open-breakers", "forced-states", "trials", "half-open"),
    ),
    Bug(
        "half-open-without-trials",
        "Breaker.swift",
        "guard let noTrialsUntil, noTrialsUntil > now else { return trialAdmission }",
        "guard let noTrialsUntil, noTrialsUntil > now else { return .allow }",
        ("trials",),
    ),
    Bug(
        "slot-wait-ends-unanswered",
        "Bulkhead.swift",
        "assignment.expired = queue.removeAll { $0.deadline <= now }.map(\\.number)",
        "_ = queue.removeAll { $0.deadline <= now }",
        ("answers",),
    ),
    Bug(
        "trip-of-others-ignored",
        "ServiceExecutor+Breakers.swift",
        "        let knownSnapshot = service.gate.breaker.snapshot\n        guard\n",
        "        let knownSnapshot = service.gate.breaker.snapshot\n        guard snapshot.state != .open else { return }\n        guard\n",
        ("open-breakers",),
    ),
    # After a few trials this sidecar stops requesting them.
    Bug(
        "requested-trials-never-end",
        "ServiceGate.swift",
        "        pendingTrialRequestCount -= 1\n        let trial: GateCall.Trial\n",
        "        if result == .unreachable { pendingTrialRequestCount -= 1 }\n        let trial: GateCall.Trial\n",
        ("half-open",),
    ),
    Bug(
        "forced-state-cut-short",
        "ServiceExecutor+Causes.swift",
        "            state, durationMilliseconds: milliseconds, reason: reason,",
        "            state, durationMilliseconds: milliseconds.map { min($0, 500) }, reason: reason,",
        ("forced-states",),
    ),
    Bug(
        "failed-permit-unanswered",
        "ServiceExecutor.swift",
        "        execute(service.gate.abandon(call, now: now), of: service, now: now)\n        answer(call, of: service, .failed(error))\n",
        "        execute(service.gate.abandon(call, now: now), of: service, now: now)\n        end(call)\n",
        ("answers",),
    ),
    # ---- Connections
    # The reply to an abandoned command must not go to the next one.
    Bug(
        "late-reply-to-next-command",
        "RedisExchange.swift",
        "        nextExpiry = nextDeadline\n",
        "        nextExpiry = nextDeadline\n        pending.removeAll { $0.receive == nil }\n",
        (*TWO_HOLDERS, "free-locks", "limits", "trials", "open-breakers", "answers", "recovery"),
    ),
    Bug(
        "lost-connection-leaves-commands-pending",
        "RedisExchange.swift",
        "        for command in failedCommands { command.receive?(.failure(commandError)) }\n",
        "        for command in failedCommands.dropFirst() { command.receive?(.failure(commandError)) }\n",
        ("answers",),
    ),
    Bug(
        "failed-login-not-tried-again",
        "RedisLink.swift",
        "            if let failure { return handler.close(reason: failure) }\n",
        "            if failure != nil { return }\n",
        ("recovery", "trials", "limits"),
    ),
    Bug(
        "subscription-not-renewed",
        "RedisSubscriber.swift",
        "        requestSubscriptions(by: handler)\n        scheduleCheck(of: handler)\n",
        "        if let told = onSubscribed {\n            requestSubscriptions(by: handler)\n"
        "            onSubscribed = { [weak self] in\n                self?.onSubscribed = nil\n                told()\n            }\n"
        "        }\n        scheduleCheck(of: handler)\n",
        ("free-locks", "open-breakers"),
    ),
    # ---- The event loop's time
    # A client that has used up its time slice never gets another one.
    Bug(
        "ended-slice-forgets-its-client",
        "RESPConnection.swift",
        "        case .awaitSlice: slices.later { [self] in continueInSlice() }\n",
        "        case .awaitSlice: if !slices.isRunning { slices.later { [self] in continueInSlice() } }\n",
        ("answers",),
    ),
    Bug(
        "http-slice-forgets-its-client",
        "HTTPConnection.swift",
        "    private func awaitSlice() {\n",
        "    private func awaitSlice() {\n        if slices.isRunning { return }\n",
        ("answers",),
    ),
    Bug(
        "slice-of-frames-forgets-its-client",
        "SliceGate.swift",
        "    private func resumeLater() {\n",
        "    private func resumeLater() {\n        if slices.isRunning { return }\n",
        ("answers",),
    ),
    # ---- Redis as several servers
    # A server takes over without the last grants, and its clock is not read again.
    Bug(
        "fences-continue-after-a-takeover",
        "RedisExchange.swift",
        "?? true { availableFrom = now + delay + Self.maximumReadDuration }",
        "?? true { availableFrom = now }",
        ("rising-fences",),
        story="SimulationTests.FenceScenarioTests/takenOverAtOnce\\(",
    ),
    Bug(
        "sentinel-role-forgotten",
        "RedisLink.swift",
        "        if directory?.checksRole ?? false {\n",
        "        if directory?.checksRole ?? false, configuration.database < 0 {\n",
        (*TWO_HOLDERS, "free-locks", "answers", "recovery"),
        story="SimulationTests.SentinelScenarioTests/writableReplica\\(",
    ),
    Bug(
        "sentinel-follows-older-epoch",
        "PrimaryChoice.swift",
        "        guard reported.epoch > primary.epoch || reported.epoch == primary.epoch && votes(for: reported) >= majority else {\n",
        "        guard reported != primary else {\n",
        (*TWO_HOLDERS, "free-locks", "limits", "recovery"),
        story="SimulationTests.SentinelScenarioTests/olderEpoch\\(",
    ),
    # A READONLY error moves only the connection that received it.
    Bug(
        "siblings-stay-with-a-demoted-server",
        "ServerAgreement.swift",
        "        guard isDemoted, peer != nil || runID != nil else { return [] }\n",
        "        guard isDemoted, peer != nil || runID != nil, slots.isEmpty else { return [] }\n",
        ("kept-leases", "free-locks"),
        story="SimulationTests.MovedServerScenarioTests/readonlyErrorMovesEveryConnection\\(",
    ),
    # On a cluster, PUBLISH counts the subscribers at one server only.
    Bug(
        "cluster-drops-waiter-on-publish-count",
        "LockScripts.swift",
        '"counts_listeners": "\\(!isOnCluster)"',
        '"counts_listeners": "true"',
        ("free-locks",),
        story="SimulationTests.ClusterScenarioTests/listeningElsewhere\\(",
    ),
    Bug(
        "cluster-ask-without-asking",
        "RedisPipeline.swift",
        "        handler.send(Asking(), timeout: timeout) { _ in }\n",
        "",
        ("answers", "recovery", "free-locks"),
        story="SimulationTests.ClusterScenarioTests/asking\\(",
    ),
    Bug(
        "linked-lease-outlives-its-connection",
        "RESPConnection.swift",
        "        listener.unfollow(followed.sorted { $0.key < $1.key }.map { ($0.key, $0.value && machine.endedBy == .client) })\n",
        "        listener.unfollow(followed.filter { !$0.value }.map { ($0.key, false) })\n",
        ("free-locks",),
    ),
    # ---- The proxy
    # The next call on the connection would get the response to the abandoned one.
    Bug(
        "abandoned-connection-reused",
        "HTTPClientStateMachine.swift",
        "        state = .over(.incomplete)\n        return exchange.disposition.isPooled ? .close : .none\n",
        "        state = .unused(.reused)\n        return exchange.disposition.isPooled ? .free : .none\n",
        ("bytes", "outcomes"),
    ),
    Bug(
        "disconnected-client-keeps-its-permit",
        "ProxiedCallStateMachine.swift",
        "return conclude(.giveUp(report,",
        "return conclude(.giveUp(nil,",
        ("permits",),
    ),
    Bug(
        "executed-request-resent",
        "ProxyFailure.swift",
        "        case .stale: isIdempotent\n",
        "        case .stale: true\n",
        ("outcomes",),
    ),
    Bug(
        "outcome-counted-twice",
        "PermitTable.swift",
        "guard let permit = permits.removeValue(forKey: id) else { return nil }",
        "guard let permit = permits[id] else { return nil }",
        ("permits",),
    ),
]

# A client of the RESP API cannot detect:
#   - from which moment a validity counts: a client counts it from before its call, which is always earlier;
#   - whether leftovers are released when Redis is back: a call without an answer may have been granted, and counts as
#     held;
#   - which keys KeyWatch reports: everything that it reports is also found another way, within the promised time;
#   - the order of replies: a client has one call at a time;
#   - how many slots a bulkhead has, and whether they are freed: no promise is about `busy`;
#   - outcomes that are not counted: a breaker that opens too late breaks no promise;
#   - events that are not published: the checkers then know less and find less.

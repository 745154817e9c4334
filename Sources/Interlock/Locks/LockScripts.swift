internal import InterlockCore
internal import RedisClient

/// The Lua scripts of locks. Some of their constants come from the settings.
final class LockScripts: Sendable {
    let acquire, release, breakLock, leave, inspect, share, renew, shareRenew, shareRelease: RedisScript
    let quorumAcquire, quorumFence, quorumRenew: RedisScript
    /// The same scripts for one grant only; see `fenced.lua` and `share-fenced.lua`.
    let fencedRenew, fencedRelease, fencedShareRenew, fencedShareRelease: RedisScript
    let leaseState, counts: RedisScript
    /// The maximum TTL, in milliseconds, of a lease whose fence may come from the counter. The counter lasts at least
    /// that long.
    let maximumCountedTTLMilliseconds: Int64

    /// Loads the scripts.
    /// - Parameter isOnCluster: whether Redis is a cluster, where `PUBLISH` counts only the subscribers of the server
    ///   that runs the script.
    init(_ settings: LockSettings, isOnCluster: Bool) {
        let constants = Self.constants(settings, isOnCluster: isOnCluster)
        func script(_ name: String) -> RedisScript { RedisScript(library: name, constants: constants) }
        acquire = script("acquire")
        release = script("release")
        breakLock = script("break")
        leave = script("leave")
        inspect = script("inspect")
        share = script("share")
        renew = script("renew")
        shareRenew = script("share-renew")
        shareRelease = script("share-release")
        quorumAcquire = script("quorum-acquire")
        quorumFence = script("quorum-fence")
        quorumRenew = script("quorum-renew")
        fencedRenew = script("fenced-renew")
        fencedRelease = script("fenced-release")
        fencedShareRenew = script("fenced-share-renew")
        fencedShareRelease = script("fenced-share-release")
        leaseState = script("lease-state")
        counts = script("counts")
        maximumCountedTTLMilliseconds = (settings.fenceLifetime - CoordinatorRuntime.fenceTolerance).wholeMilliseconds
    }

    /// The values on which the scripts and the Swift code must agree, by their names in Lua.
    static func constants(_ settings: LockSettings, isOnCluster: Bool) -> [String: String] {
        [
            "claim_window": "\(LockQueue.claimWindowMilliseconds)",
            "counts_listeners": "\(!isOnCluster)",
            "fence_lifetime": "\(settings.fenceLifetime.wholeMilliseconds)",
            "fence_slack": "\(CoordinatorRuntime.fenceTolerance.wholeMilliseconds * 1000)",
            "recheck_delay": "\(LockQueue.recheckMilliseconds)",
            "max_slots": "\(LockMode.slots.upperBound)",
        ]
    }
}

/// The keys of one lock, in the order in which its scripts take them.
///
/// On a cluster they include a key that never exists. During a slot migration, the source server runs a script while
/// all of its keys are still there, but then rejects access to a key that the script has deleted, which would leave the
/// script half done. The missing key prevents the script from starting until the slot has moved.
struct LockKeys {
    let scripts: LockScripts
    var space: KeySpace
    var name: String

    func encodeBasicKeys(into encoder: inout CommandEncoder) {
        appendBasicKeys(into: &encoder)
        encodeMigrationGuard(into: &encoder)
    }

    func encodeGroupKeys(into encoder: inout CommandEncoder) {
        appendGroupKeys(into: &encoder)
        encodeMigrationGuard(into: &encoder)
    }

    func encodeInspectionKeys(into encoder: inout CommandEncoder) {
        appendGroupKeys(into: &encoder)
        encodeCounts(into: &encoder)
    }

    func encodeCounts(into encoder: inout CommandEncoder) {
        encoder.append(parts: space.countsStart, name, "}")
    }

    private func appendGroupKeys(into encoder: inout CommandEncoder) {
        appendBasicKeys(into: &encoder)
        encoder.append(parts: space.holdersStart, name, "}")
        encoder.append(parts: space.grantsStart, name, "}")
    }

    private func appendBasicKeys(into encoder: inout CommandEncoder) {
        encoder.append(parts: space.lockStart, name, space.lockEnd)
        encoder.append(parts: space.fenceStart, name, "}")
        encoder.append(parts: space.queueStart, name, "}")
    }

    /// Appends the keys of `lease-state.lua`. A read-only script does not need the key that never exists.
    func encodeLeaseStateKeys(into encoder: inout CommandEncoder) {
        encoder.append(parts: space.lockStart, name, space.lockEnd)
        encoder.append(parts: space.fenceStart, name, "}")
        encoder.append(parts: space.holdersStart, name, "}")
        encoder.append(parts: space.grantsStart, name, "}")
    }

    func encodeMigrationGuard(into encoder: inout CommandEncoder) {
        if space.isOnCluster { encoder.append(parts: space.guardStart, name, "}") }
    }

    var basicKeyCount: Int { space.isOnCluster ? 4 : 3 }
    var groupKeyCount: Int { space.isOnCluster ? 6 : 5 }
}

/// Acquires a lock, or joins its queue. See `acquire.lua`, and `share.lua` for shared locks and semaphores.
struct AcquireScript: ScriptCommand {
    /// Whether any caller may acquire the lock, or only its current owner.
    enum Candidate: String {
        case anyCaller = "take"
        case currentOwner = "own"
    }

    /// This sidecar's entry in the queue of sidecars.
    struct Ticket {
        var token: String
        /// The time for which the ticket lasts while callers wait behind it, in milliseconds.
        var lifetimeMilliseconds: Int64
        /// Whether further waiters are behind this one in this sidecar.
        var hasOthers: Bool
    }

    struct Grant {
        var fence: Int64
        /// The group that holds the lock; `nil` for an exclusive grant.
        var group: String?
        /// The time until the first lease of a semaphore ends, in milliseconds.
        var nextEndMilliseconds: Int64?
    }

    enum Reply {
        case granted(Grant)
        /// Another holder has the lock. The TTL is in milliseconds; `nil` if the lock never expires. The position in
        /// the queue starts with 0; `nil` if the caller is not queued.
        case held(ttlMilliseconds: Int64?, position: Int?)
        /// The lock is held in a mode that conflicts with the requested one.
        case heldInAnotherMode(LockMode)
    }

    var keys: LockKeys
    var token: String
    var ttlMilliseconds: Int64
    var mode: LockMode
    var candidate = Candidate.anyCaller
    /// The ticket of a waiting caller; `nil` if the caller does not wait.
    var ticket: Ticket?
    /// The name of the group if this lease starts one.
    var group = ""

    var script: RedisScript { mode == .exclusive ? keys.scripts.acquire : keys.scripts.share }
    var keyCount: Int { mode == .exclusive && ticket == nil ? keys.basicKeyCount : keys.groupKeyCount }

    func encodeArguments(into encoder: inout CommandEncoder) {
        let slots: Int
        switch mode {
        case .exclusive: return encodeExclusive(into: &encoder)
        case .shared: slots = 0
        case .permits(let count): slots = count
        }
        keys.encodeGroupKeys(into: &encoder)
        encodeCommon(into: &encoder)
        encoder.append(candidate.rawValue)
        if let ticket {
            encode(ticket, into: &encoder)
        } else {
            for _ in 0..<3 { encoder.append("") }
        }
        encoder.append(slots)
        encoder.append(group)
    }

    private func encodeExclusive(into encoder: inout CommandEncoder) {
        if ticket == nil { keys.encodeBasicKeys(into: &encoder) } else { keys.encodeGroupKeys(into: &encoder) }
        encodeCommon(into: &encoder)
        if candidate == .anyCaller, ttlMilliseconds <= keys.scripts.maximumCountedTTLMilliseconds {
            encoder.appendServerTime()
        } else {
            encoder.append(CommandEncoder.unknownServerTime)
        }
        // Each argument costs both sides time, so arguments with default values are omitted.
        guard candidate != .anyCaller || ticket != nil else { return }
        encoder.append(candidate.rawValue)
        if let ticket { encode(ticket, into: &encoder) }
    }

    private func encodeCommon(into encoder: inout CommandEncoder) {
        encoder.append(token)
        encoder.append(ttlMilliseconds)
        encoder.append(keys.space.wakePrefix)
    }

    private func encode(_ ticket: Ticket, into encoder: inout CommandEncoder) {
        encoder.append(ticket.token)
        encoder.append(ticket.lifetimeMilliseconds)
        encoder.append(ticket.hasOthers ? ticket.lifetimeMilliseconds : 0)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        if let fence = reply.integer { return .granted(Grant(fence: fence)) }
        guard let parts = reply.array, parts.count >= 2, let kind = parts[0].integer, let value = parts[1].integer else {
            throw reply.unexpected(for: script.name)
        }
        switch kind {
        case 1, 2:
            let nextEndMilliseconds = parts.count > 3 ? parts[3].integer : nil
            return .granted(
                Grant(
                    fence: value, group: parts.count > 2 ? parts[2].text : nil,
                    nextEndMilliseconds: nextEndMilliseconds.flatMap { $0 < 0 ? nil : min($0, ScriptNumber.maximumExact) }))
        case 3:
            return .heldInAnotherMode(value < 0 ? .exclusive : value == 0 ? .shared : .permits(Int(value)))
        default:
            let position = parts.count > 2 ? parts[2].integer : nil
            return .held(
                ttlMilliseconds: value == -1 ? nil : max(0, min(value, ScriptNumber.maximumExact)),
                position: position.flatMap { $0 < 0 ? nil : Int($0) })
        }
    }
}

/// Whether a token holds a lock, as reported by the scripts that check it.
enum TokenState {
    case held
    case lost
    /// A group holds the lock. Only the scripts of groups can check whether the token is in the group.
    case heldByGroup

    init(_ reply: RedisReply, script: String) throws(RedisError) {
        switch reply.integer {
        case 1: self = .held
        case 0: self = .lost
        case -1: self = .heldByGroup
        default: throw reply.unexpected(for: script)
        }
    }
}

/// Renews a lease. See `renew.lua` and `share-renew.lua`.
struct RenewScript: ScriptCommand {
    var keys: LockKeys
    var token: String
    var ttlMilliseconds: Int64
    /// The fence of the only grant to renew; `nil` for the token's current grant.
    var fence: Int64?
    var isGroup = false
    var purpose = Purpose.requested

    enum Purpose: String {
        /// The holder asked for the renewal.
        case requested
        /// The sidecar renews a linked lease.
        case watch
        /// The renewal is repeated for replicas.
        case replicate
    }

    var script: RedisScript {
        switch (isGroup, fence) {
        case (false, nil): keys.scripts.renew
        case (false, _?): keys.scripts.fencedRenew
        case (true, nil): keys.scripts.shareRenew
        case (true, _?): keys.scripts.fencedShareRenew
        }
    }
    var keyCount: Int { isGroup ? keys.groupKeyCount : fence == nil ? 1 : keys.basicKeyCount }

    func encodeArguments(into encoder: inout CommandEncoder) {
        if isGroup {
            keys.encodeGroupKeys(into: &encoder)
        } else if fence == nil {
            encoder.append(parts: keys.space.lockStart, keys.name, keys.space.lockEnd)
        } else {
            keys.encodeBasicKeys(into: &encoder)
        }
        encoder.append(token)
        encoder.append(ttlMilliseconds)
        if purpose != .requested { encoder.append(purpose.rawValue) }
        if let fence { encoder.append(fence) }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> TokenState {
        try TokenState(reply, script: script.name)
    }
}

/// Frees a lock and hands it to the next waiter. See `release.lua`.
struct ReleaseScript: ScriptCommand {
    /// The local waiter that gets the lock next.
    struct Successor {
        var token: String
        var ttlMilliseconds: Int64
        /// Whether this sidecar's turn may continue although other sidecars wait.
        var continuesTurn: Bool
        var ticket: AcquireScript.Ticket
    }

    enum Reply {
        case lost
        case heldByGroup
        /// The lock is free, or another sidecar has it. If `isFirst`, this sidecar's waiters are next.
        case released(isFirst: Bool)
        /// The successor has the lock.
        case passedOn(fence: Int64, beginsTurn: Bool)
    }

    var keys: LockKeys
    var token: String
    var sidecar: String
    /// The fence of the only grant to end; `nil` for the token's current grant.
    var fence: Int64?
    var successor: Successor?

    var script: RedisScript { fence == nil ? keys.scripts.release : keys.scripts.fencedRelease }
    var keyCount: Int { keys.basicKeyCount }

    func encodeArguments(into encoder: inout CommandEncoder) {
        keys.encodeBasicKeys(into: &encoder)
        encoder.append(token)
        encoder.append(keys.space.wakePrefix)
        encoder.append(sidecar)
        if let successor { encode(successor, into: &encoder) }
        if let fence { encoder.append(fence) }
    }

    private func encode(_ successor: Successor, into encoder: inout CommandEncoder) {
        encoder.append(successor.token)
        encoder.append(successor.ttlMilliseconds)
        encoder.append(successor.continuesTurn ? "on" : "over")
        encoder.append(successor.ticket.token)
        encoder.append(successor.ticket.lifetimeMilliseconds)
        encoder.append(successor.ticket.hasOthers ? successor.ticket.lifetimeMilliseconds : 0)
        guard successor.continuesTurn, successor.ticket.hasOthers,
            successor.ttlMilliseconds <= keys.scripts.maximumCountedTTLMilliseconds
        else { return }
        encoder.appendServerTime()
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        if reply.integer != nil {
            switch try TokenState(reply, script: script.name) {
            case .held: return .released(isFirst: false)
            case .lost: return .lost
            case .heldByGroup: return .heldByGroup
            }
        }
        guard let parts = reply.array, let kind = parts.first?.integer else { throw reply.unexpected(for: script.name) }
        switch (kind, parts.count) {
        case (1, 2): return .released(isFirst: parts[1].integer == 1)
        case (2, 3):
            return .passedOn(fence: try parts[1].integer(for: script.name), beginsTurn: parts[2].integer == 1)
        default: throw reply.unexpected(for: script.name)
        }
    }
}

/// Ends one lease of a shared lock or semaphore. See `share-release.lua`.
struct ShareReleaseScript: ScriptCommand {
    typealias Reply = Bool

    var keys: LockKeys
    var token: String
    var sidecar: String
    /// The fence of the only grant to end; `nil` for the token's current grant.
    var fence: Int64?

    var script: RedisScript { fence == nil ? keys.scripts.shareRelease : keys.scripts.fencedShareRelease }
    var keyCount: Int { keys.groupKeyCount }

    func encodeArguments(into encoder: inout CommandEncoder) {
        keys.encodeGroupKeys(into: &encoder)
        encoder.append(token)
        encoder.append(keys.space.wakePrefix)
        encoder.append(sidecar)
        if let fence { encoder.append(fence) }
    }
}

/// Removes a sidecar's ticket from the queue. See `leave.lua`.
struct LeaveScript: ScriptCommand {
    var keys: LockKeys
    var ticket: String
    var sidecar: String

    var script: RedisScript { keys.scripts.leave }
    var keyCount: Int { keys.groupKeyCount }

    func encodeArguments(into encoder: inout CommandEncoder) {
        keys.encodeGroupKeys(into: &encoder)
        encoder.append(ticket)
        encoder.append(keys.space.wakePrefix)
        encoder.append(sidecar)
    }

    func decode(_ reply: RedisReply) throws(RedisError) {
        _ = try reply.integer(for: script.name)
    }
}

/// Breaks a lock: ends its leases and hands it to the next waiter. See `break.lua`.
struct BreakScript: ScriptCommand {
    typealias Reply = Bool

    var keys: LockKeys
    var by: String
    /// The fence of the grant to end; `nil` for the current grant.
    var fence: Int64?
    var origin: String
    var database: Int

    var script: RedisScript { keys.scripts.breakLock }
    var keyCount: Int { keys.groupKeyCount }

    func encodeArguments(into encoder: inout CommandEncoder) {
        keys.encodeGroupKeys(into: &encoder)
        encoder.append(keys.space.wakePrefix)
        encoder.append(keys.space.events)
        let event = LockEvent.broken(keys.name, by: by, origin: origin, database: database)
        encoder.append(event.start)
        encoder.append(event.end)
        encoder.append(fence.map { "\($0)" } ?? "")
    }
}

/// Reads the state of locks. See `inspect.lua`.
struct InspectScript: ScriptCommand {
    /// The state of one lock.
    struct LockState {
        var token: String?
        var ttlMilliseconds: Int64
        var fence: Int64?
        /// The number of other sidecars that wait.
        var otherSidecarCount: Int
        /// The group that holds the lock; `nil` if no group does.
        var group: Group?
        /// The tickets in the order of their turns, each with the number of waiters behind it; `nil` if that sidecar
        /// has not reported the number.
        var waiting: [(ticket: String, waiters: Int64?)]
    }

    struct Group {
        /// The number of valid leases.
        var holderCount: Int
        /// The number of slots; 0 for readers, which are unlimited.
        var slotCount: Int
        /// Some of the leases: those that end first.
        var leases: [(token: String, ttlMilliseconds: Int64, fence: Int64?)]
    }

    /// The maximum number of leases of a group, and also of tickets, in a reply. It is divided among the locks; each
    /// gets at least `minimumListedPerLock`.
    private static let maximumListed = 100
    private static let minimumListedPerLock = 4

    /// The locks, at least one. On a cluster exactly one, because others may be in different hash slots.
    var locks: [LockKeys]
    var sidecar: String

    var script: RedisScript { locks[0].scripts.inspect }
    var keyCount: Int { 6 * locks.count + (locks[0].space.isOnCluster ? 1 : 0) }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for keys in locks { keys.encodeInspectionKeys(into: &encoder) }
        locks[0].encodeMigrationGuard(into: &encoder)
        encoder.append(sidecar)
        encoder.append(max(Self.minimumListedPerLock, Self.maximumListed / locks.count))
        encoder.append(locks[0].space.wakePrefix)
        encoder.append(WaiterCounts.lifetimeMilliseconds)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> [LockState] {
        guard let replies = reply.array, replies.count == locks.count else { throw reply.unexpected(for: script.name) }
        var states: [LockState] = []
        for reply in replies { states.append(try decodeState(reply)) }
        return states
    }

    private func decodeState(_ reply: RedisReply) throws(RedisError) -> LockState {
        guard let parts = reply.array, parts.count == 8, let ttlMilliseconds = parts[1].integer,
            let others = parts[3].integer,
            let holders = parts[4].integer, let slots = parts[5].integer, let leases = parts[6].array,
            let waiting = parts[7].array
        else {
            throw reply.unexpected(for: script.name)
        }
        var group: Group?
        if holders >= 0 {
            group = Group(
                holderCount: Int(holders), slotCount: Int(slots),
                leases: stride(from: 0, to: leases.count - 2, by: 3).map {
                    (leases[$0].text ?? "", leases[$0 + 1].integer ?? 0, leases[$0 + 2].integer)
                })
        }
        return LockState(
            token: parts[0].text, ttlMilliseconds: ttlMilliseconds, fence: parts[2].integer,
            otherSidecarCount: Int(others),
            group: group,
            waiting: stride(from: 0, to: waiting.count - 1, by: 2).map { (waiting[$0].text ?? "", waiting[$0 + 1].integer) })
    }
}

/// Checks whether grants still hold their locks. See `lease-state.lua`.
struct LeaseStateScript: ScriptCommand {
    /// The grants to check; on a cluster exactly one, because others may be in different hash slots.
    var grants: [(keys: LockKeys, lease: LeaseTable.ListedLease)]

    var script: RedisScript { grants[0].keys.scripts.leaseState }
    var keyCount: Int { 4 * grants.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for grant in grants { grant.keys.encodeLeaseStateKeys(into: &encoder) }
        for grant in grants {
            encoder.append(grant.lease.token)
            encoder.append(grant.lease.fence)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> [LeaseTable.LeaseState] {
        guard let numbers = reply.array, numbers.count == grants.count else { throw reply.unexpected(for: script.name) }
        var states: [LeaseTable.LeaseState] = []
        for number in numbers {
            guard let milliseconds = number.integer else { throw reply.unexpected(for: script.name) }
            states.append(milliseconds == -2 ? .ended : .remaining(milliseconds: milliseconds < 0 ? nil : milliseconds))
        }
        return states
    }
}

/// Publishes the number of callers that wait in this sidecar. See `counts.lua`.
struct CountsScript: ScriptCommand {
    struct Count {
        var keys: LockKeys
        var ticket: String
        /// The remaining time, in milliseconds, during which the count is refreshed.
        var remainingMilliseconds: Int64
        var waiterCount: Int
    }

    /// The counts to publish; on a cluster exactly one, because others may be in different hash slots.
    var counts: [Count]

    var script: RedisScript { counts[0].keys.scripts.counts }
    var keyCount: Int { counts.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for count in counts { count.keys.encodeCounts(into: &encoder) }
        for count in counts {
            encoder.append(count.ticket)
            encoder.append(count.remainingMilliseconds)
            encoder.append(count.waiterCount)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) {}
}

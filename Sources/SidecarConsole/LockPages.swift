internal import Interlock
internal import InterlockCore
internal import SidecarListeners

/// A page of held locks, read from Redis in a limited number of steps and updated with the later grants of this
/// sidecar.
final class LockPages {
    private let calls: CoordinatorCalls
    private let search: ExactText
    private let deadline: Instant
    private let startedMilliseconds: Int64
    private var cursor: String
    private var names: [ResourceName] = []
    private var steps = 0
    /// The number of times that the step size has doubled.
    private var doublings = 0
    private var commands = 0

    /// The number of locks that completes a page.
    private static let pageSize = 50
    /// The number of locks that completes a page if each lock needs a separate command.
    private static let pageSizeWithoutBatches = 12
    /// The maximum number of locks on a page, as a multiple of its size, because the last step may find more than
    /// needed. A step that exceeds the maximum is repeated as the first step of the next page.
    private static let maximumSizeFactor = 2
    /// The number of steps after which a page ends, even if they found nothing.
    private static let maximumSteps = 8
    /// How long further steps may begin, in milliseconds.
    private static let timeLimit: Int64 = 2000

    init(calls: CoordinatorCalls, search: ExactText, cursor: String) {
        self.calls = calls
        self.search = search
        self.cursor = cursor
        startedMilliseconds = calls.wallTime()
        deadline = calls.now().advanced(byMilliseconds: Self.timeLimit)
    }

    private var size: Int { Self.size(calls) }

    private static func size(_ calls: CoordinatorCalls) -> Int {
        calls.maximumLocksPerInspection == 1 ? pageSizeWithoutBatches : pageSize
    }

    /// Returns the maximum number of commands that a page costs.
    static func maximumCommands(_ calls: CoordinatorCalls) -> Int {
        // One more step, because a step that finds too many locks is repeated once.
        maximumSteps + 1 + commands(inspecting: maximumSizeFactor * size(calls), calls)
    }

    private static func commands(inspecting count: Int, _ calls: CoordinatorCalls) -> Int {
        (count + calls.maximumLocksPerInspection - 1) / calls.maximumLocksPerInspection
    }

    /// Reads the page.
    /// - Parameter done: a closure that is called once, with the page and the number of commands it cost.
    func read(_ done: @escaping (Result<[String: JSONValue], InterlockError>, _ commands: Int) -> Void) {
        let glob = search.text.isEmpty ? "*" : "*\(Self.escapedGlob(search.text))*"
        // Each step scans more keys than the one before, because Redis may hold many keys that are not locks.
        let count = min(1000, size << doublings)
        calls.listLocks(
            cursor: cursor, matching: glob, count: count,
            completion: Completion { [self] _, result in
                steps += 1
                commands += 1
                switch result {
                case .failure(let error): done(.failure(error), commands)
                case .success(let page):
                    // A key of other software may have a name that is invalid here.
                    let found = page.names.compactMap { try? ResourceName($0) }
                    let exceedsPage = names.count + found.count > Self.maximumSizeFactor * size
                    if exceedsPage, !names.isEmpty {
                        // The cursor stays before this step, so the next page does not miss its names.
                        inspect(done)
                    } else if exceedsPage, doublings > 0 {
                        doublings = 0
                        read(done)
                    } else {
                        cursor = page.cursor
                        names += found
                        doublings += 1
                        let isOver = cursor == "0" || names.count >= size || steps >= Self.maximumSteps || calls.now() >= deadline
                        if isOver { inspect(done) } else { read(done) }
                    }
                }
                return true
            })
    }

    private func inspect(_ done: @escaping (Result<[String: JSONValue], InterlockError>, _ commands: Int) -> Void) {
        // A scan may return a name twice, for example while Redis resizes its key table.
        let names = Set(names).sorted { $0.text < $1.text }
        let (cursor, isComplete, wall) = (cursor, cursor == "0", startedMilliseconds)
        guard !names.isEmpty else { return done(.success(Self.page([], cursor: cursor, isComplete: isComplete)), commands) }
        commands += Self.commands(inspecting: names.count, calls)
        calls.inspectLocks(names) { [commands] result in
            done(
                result.map { locks in
                    Self.page(
                        locks.compactMap { lock in
                            lock.map { LockReply.fields($0).merging(["at_ms": .integer(wall), "here": .bool(false)]) { $1 } }
                        }, cursor: cursor, isComplete: isComplete)
                }, commands)
        }
    }

    /// The page before the first read.
    static let empty = page([], cursor: "0", isComplete: false)

    private static func page(_ rows: [[String: JSONValue]], cursor: String, isComplete: Bool) -> [String: JSONValue] {
        ["locks": .array(rows.map { .object($0) }), "cursor": .string(cursor), "complete": .bool(isComplete)]
    }

    /// Returns a glob that matches exactly this text.
    private static func escapedGlob(_ text: String) -> String {
        var glob = ""
        for scalar in text.unicodeScalars {
            if "*?[]\\^-".unicodeScalars.contains(scalar) { glob += "\\" }
            glob.unicodeScalars.append(scalar)
        }
        return glob
    }

    // MARK: Later grants of this sidecar

    /// Returns the page, updated with the grants of this sidecar.
    /// - Parameters:
    ///   - grants: this sidecar's last grants, newest first.
    ///   - isFirst: whether to add locks held through this sidecar that are missing from the page.
    static func fields(
        _ reading: LiveReading, _ grants: [GrantRecord], search: ExactText, isFirst: Bool
    ) -> [String: JSONValue] {
        var page = reading.fields(empty: empty)
        guard let content = reading.content, case .array(let read) = page["locks"] else { return page }
        var ownGrants: [ExactText: [GrantRecord]] = [:]
        for grant in grants where search.isPart(of: grant.name) { ownGrants[ExactText(grant.name), default: []].append(grant) }
        guard !ownGrants.isEmpty else { return page }
        var rows: [JSONValue] = read.map { row in
            guard case .object(let lock) = row, case .string(let name) = lock["name"],
                let grants = ownGrants.removeValue(forKey: ExactText(name))
            else { return row }
            return .object(updated(lock, by: grants, seenAt: content.seenMilliseconds))
        }
        if isFirst {
            for (name, grants) in ownGrants.sorted(by: { $0.key.text < $1.key.text })
            where grants.contains(where: { $0.end == nil }) {
                guard let name = try? ResourceName(name.text) else { continue }
                let lock = LockReply.fields(LockInformation(unheld: name)).merging(["at_ms": .integer(0)]) { $1 }
                rows.append(.object(updated(lock, by: grants, seenAt: 0)))
            }
        }
        page["locks"] = .array(rows)
        return page
    }

    /// Returns a lock's row, updated with its grants.
    /// - Parameters:
    ///   - grants: the lock's grants by this sidecar, newest first.
    ///   - seenAt: when the row arrived from Redis.
    private static func updated(
        _ lock: [String: JSONValue], by grants: [GrantRecord], seenAt: Int64
    ) -> [String: JSONValue] {
        guard let newest = grants.first else { return lock }
        return newest.mode == .exclusive ? updated(lock, by: newest) : updatedShared(lock, by: grants, seenAt: seenAt)
    }

    /// The members of a lock without holders.
    private static let unheldMembers: [String: JSONValue] = [
        "holders": .integer(0), "label": .null, "mode": .null, "ttl_ms": .integer(0), "leases": .array([]),
    ]

    private static func integer(_ value: JSONValue?) -> Int64 {
        if case .integer(let number) = value { number } else { 0 }
    }

    /// Returns the end of the last lease. Saturates, because a key may have any time to live.
    private static func end(of lock: [String: JSONValue]) -> Int64 {
        let (end, isBeyond) = integer(lock["at_ms"]).addingReportingOverflow(integer(lock["ttl_ms"]))
        return isBeyond ? .max : end
    }

    /// Updates the row of an exclusive lock. The fences show whether the row or the grant is newer.
    private static func updated(_ lock: [String: JSONValue], by grant: GrantRecord) -> [String: JSONValue] {
        var lock = lock
        let fence = integer(lock["fence"])
        guard grant.fence >= fence else { return lock }
        if grant.end == nil {
            // The row was read after the lease's last renewal.
            if grant.fence == fence, integer(lock["holders"]) > 0, grant.promisedMilliseconds <= end(of: lock) { return lock }
            let remaining = JSONValue.integer(grant.promisedMilliseconds - grant.grantedMilliseconds)
            lock["at_ms"] = .integer(grant.grantedMilliseconds)
            lock["holders"] = .integer(1)
            lock["label"] = .string(grant.label)
            lock["mode"] = .string(grant.mode.rawName)
            lock["ttl_ms"] = remaining
            lock["leases"] = .array([
                .object(["label": .string(grant.label), "fence": .integer(grant.fence), "ttl_ms": remaining])
            ])
        } else {
            guard integer(lock["holders"]) > 0 || grant.fence > fence else { return lock }
            // A row read after the lease ended is newer, because the lease may have been renewed in another way.
            // Without a fence in the row, the order is unknown: other software may have created the key.
            let endedAt = grant.endedMilliseconds ?? grant.grantedMilliseconds
            let isLater = lock["fence"] != .null && grant.fence > fence
            guard endedAt >= integer(lock["at_ms"]) || isLater else { return lock }
            // If others were waiting, the lock was handed over; the next read shows to whom.
            lock["at_ms"] = .integer(endedAt)
            lock.merge(unheldMembers) { $1 }
        }
        lock["fence"] = .integer(grant.fence)
        lock["permits"] = .null
        lock["here"] = .bool(true)
        return lock
    }

    /// Updates the row of a lock with several holders: applies the grants and ends since the row was read to the number
    /// of holders. The list of leases stays as read.
    private static func updatedShared(
        _ lock: [String: JSONValue], by grants: [GrantRecord], seenAt: Int64
    ) -> [String: JSONValue] {
        var lock = lock
        let added = grants.filter { $0.grantedMilliseconds > seenAt && $0.end == nil }
        let removed = grants.count { $0.grantedMilliseconds <= seenAt && ($0.endedMilliseconds ?? .min) > seenAt }
        guard !added.isEmpty || removed > 0 else { return lock }
        let holders = max(0, integer(lock["holders"]) + Int64(added.count - removed))
        lock["holders"] = .integer(holders)
        lock["here"] = .bool(true)
        if let newest = added.first {
            let at = newest.grantedMilliseconds
            let readUntil = end(of: lock)
            lock["label"] = .string(newest.label)
            lock["fence"] = .integer(newest.fence)
            lock["mode"] = .string(newest.mode.rawName)
            lock["permits"] = newest.mode.permits.map { .integer(Int64($0)) } ?? .null
            lock["ttl_ms"] = .integer(max(readUntil, added.map(\.promisedMilliseconds).max() ?? 0) - at)
            lock["at_ms"] = .integer(at)
        } else if holders == 0 {
            lock.merge(unheldMembers) { $1 }
        }
        return lock
    }
}

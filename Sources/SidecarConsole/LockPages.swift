internal import Interlock
internal import InterlockCore
internal import SidecarListeners

/// A page of held locks. It is read from Redis in a limited number of steps, and updated with the later grants of this
/// sidecar.
final class LockPages {
    /// A closure that receives the page, or the error, and the number of commands that the read cost.
    typealias ReadCompletion = (Result<[String: JSONValue], InterlockError>, _ commands: Int) -> Void

    private let coordinator: LoopBoundCoordinator
    private let search: ExactText
    private let deadline: Instant
    private let startedMilliseconds: Int64
    private var cursor: String
    private var names: [ResourceName] = []
    private var stepCount = 0
    /// The number of times that the step size has doubled.
    private var doublingCount = 0
    private var commandCount = 0

    /// The number of locks that completes a page.
    private static let pageSize = 50
    /// The number of locks that completes a page if each lock needs a separate command.
    private static let pageSizeWithoutBatches = 12
    /// The maximum number of locks on a page, as a multiple of its size, because the last step may find more than
    /// needed. A step that exceeds the maximum is repeated as the first step of the next page.
    private static let maximumSizeFactor = 2
    /// The number of steps after which a page is complete, even if they found nothing.
    private static let maximumSteps = 8
    /// The time after which no further step begins.
    private static let timeLimitMilliseconds: Int64 = 2000

    init(coordinator: LoopBoundCoordinator, search: ExactText, cursor: String) {
        self.coordinator = coordinator
        self.search = search
        self.cursor = cursor
        startedMilliseconds = coordinator.wallTimeMilliseconds()
        deadline = coordinator.now().advanced(byMilliseconds: Self.timeLimitMilliseconds)
    }

    private var pageLockCount: Int { Self.pageLockCount(coordinator) }

    private static func pageLockCount(_ coordinator: LoopBoundCoordinator) -> Int {
        coordinator.maximumLocksPerInspection == 1 ? pageSizeWithoutBatches : pageSize
    }

    /// Returns the maximum number of commands that a page costs.
    static func maximumCommands(_ coordinator: LoopBoundCoordinator) -> Int {
        // A step that finds too many locks is repeated once, which costs another command.
        maximumSteps + 1 + commands(inspecting: maximumSizeFactor * pageLockCount(coordinator), coordinator)
    }

    private static func commands(inspecting count: Int, _ coordinator: LoopBoundCoordinator) -> Int {
        (count + coordinator.maximumLocksPerInspection - 1) / coordinator.maximumLocksPerInspection
    }

    /// Reads the page.
    /// - Parameter completion: a closure that is called once, when the page is complete or a command has failed.
    func read(_ completion: @escaping ReadCompletion) {
        let glob = search.text.isEmpty ? "*" : "*\(Self.escapedGlob(search.text))*"
        // Each step scans more keys than the previous one, because Redis may hold many keys that are not locks.
        let scanCount = min(1000, pageLockCount << doublingCount)
        coordinator.listLocks(
            cursor: cursor, matching: glob, count: scanCount,
            completion: Completion { [self] _, result in
                stepCount += 1
                commandCount += 1
                switch result {
                case .failure(let error): completion(.failure(error), commandCount)
                case .success(let page):
                    // Other software may have created a key whose name is invalid here.
                    let foundNames = page.names.compactMap { try? ResourceName($0) }
                    let exceedsPage = names.count + foundNames.count > Self.maximumSizeFactor * pageLockCount
                    if exceedsPage, !names.isEmpty {
                        // The cursor stays before this step, so that the next page includes its names.
                        inspect(completion)
                    } else if exceedsPage, doublingCount > 0 {
                        doublingCount = 0
                        read(completion)
                    } else {
                        cursor = page.cursor
                        names += foundNames
                        doublingCount += 1
                        let isPageComplete =
                            cursor == "0" || names.count >= pageLockCount || stepCount >= Self.maximumSteps
                            || coordinator.now() >= deadline
                        if isPageComplete { inspect(completion) } else { read(completion) }
                    }
                }
                return true
            })
    }

    /// Reads the state of the locks that were found.
    private func inspect(_ completion: @escaping ReadCompletion) {
        // A scan may return a name twice, for example while Redis resizes its key table.
        let names = Set(names).sorted { $0.text < $1.text }
        let (cursor, isComplete, readMilliseconds) = (cursor, cursor == "0", startedMilliseconds)
        guard !names.isEmpty else {
            return completion(.success(Self.page([], cursor: cursor, isComplete: isComplete)), commandCount)
        }
        commandCount += Self.commands(inspecting: names.count, coordinator)
        coordinator.inspectLocks(names) { [commandCount] result in
            completion(
                result.map { locks in
                    Self.page(
                        locks.compactMap { lock in
                            lock.map {
                                LockReply.fields($0).merging([
                                    "at_ms": .integer(readMilliseconds), "here": .bool(false),
                                ]) { $1 }
                            }
                        }, cursor: cursor, isComplete: isComplete)
                }, commandCount)
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
        guard let content = reading.content, case .array(let readRows) = page["locks"] else { return page }
        var ownGrants: [ExactText: [GrantRecord]] = [:]
        for grant in grants where search.isPart(of: grant.name) { ownGrants[ExactText(grant.name), default: []].append(grant) }
        guard !ownGrants.isEmpty else { return page }
        var rows: [JSONValue] = readRows.map { row in
            guard case .object(let lock) = row, case .string(let name) = lock["name"],
                let grants = ownGrants.removeValue(forKey: ExactText(name))
            else { return row }
            return .object(updated(lock, by: grants, seenMilliseconds: content.seenMilliseconds))
        }
        if isFirst {
            for (name, grants) in ownGrants.sorted(by: { $0.key.text < $1.key.text })
            where grants.contains(where: { $0.end == nil }) {
                guard let name = try? ResourceName(name.text) else { continue }
                let lock = LockReply.fields(LockInformation(unheld: name)).merging(["at_ms": .integer(0)]) { $1 }
                rows.append(.object(updated(lock, by: grants, seenMilliseconds: 0)))
            }
        }
        page["locks"] = .array(rows)
        return page
    }

    /// Returns a lock's row, updated with its grants.
    /// - Parameters:
    ///   - grants: the lock's grants by this sidecar, newest first.
    ///   - seenMilliseconds: the time when the row arrived from Redis.
    private static func updated(
        _ lock: [String: JSONValue], by grants: [GrantRecord], seenMilliseconds: Int64
    ) -> [String: JSONValue] {
        guard let newest = grants.first else { return lock }
        return newest.mode == .exclusive
            ? updated(lock, by: newest) : updatedShared(lock, by: grants, seenMilliseconds: seenMilliseconds)
    }

    /// The members of a lock without holders.
    private static let unheldMembers: [String: JSONValue] = [
        "holders": .integer(0), "label": .null, "mode": .null, "ttl_ms": .integer(0), "leases": .array([]),
    ]

    private static func integer(_ value: JSONValue?) -> Int64 {
        if case .integer(let number) = value { number } else { 0 }
    }

    /// Returns the expiry of the last lease. Saturates, because a key may have any time to live.
    private static func endMilliseconds(of lock: [String: JSONValue]) -> Int64 {
        let (end, didOverflow) = integer(lock["at_ms"]).addingReportingOverflow(integer(lock["ttl_ms"]))
        return didOverflow ? .max : end
    }

    /// Updates the row of an exclusive lock. The fences show whether the row or the grant is newer.
    private static func updated(_ lock: [String: JSONValue], by grant: GrantRecord) -> [String: JSONValue] {
        var lock = lock
        let fence = integer(lock["fence"])
        guard grant.fence >= fence else { return lock }
        if grant.end == nil {
            // The row is newer if it was read after the lease's last renewal.
            let includesRenewals = grant.promisedMilliseconds <= endMilliseconds(of: lock)
            if grant.fence == fence, integer(lock["holders"]) > 0, includesRenewals { return lock }
            let remainingMilliseconds = JSONValue.integer(grant.promisedMilliseconds - grant.grantedMilliseconds)
            lock["at_ms"] = .integer(grant.grantedMilliseconds)
            lock["holders"] = .integer(1)
            lock["label"] = .string(grant.label)
            lock["mode"] = .string(grant.mode.rawName)
            lock["ttl_ms"] = remainingMilliseconds
            lock["leases"] = .array([
                .object([
                    "label": .string(grant.label), "fence": .integer(grant.fence), "ttl_ms": remainingMilliseconds,
                ])
            ])
        } else {
            guard integer(lock["holders"]) > 0 || grant.fence > fence else { return lock }
            // A row that was read after the lease ended is newer, because the lease may have been renewed elsewhere.
            // If the row has no fence, the order is unknown, because other software may have created the key.
            let endedMilliseconds = grant.endedMilliseconds ?? grant.grantedMilliseconds
            let isLaterGrant = lock["fence"] != .null && grant.fence > fence
            guard endedMilliseconds >= integer(lock["at_ms"]) || isLaterGrant else { return lock }
            // If others were waiting, the lock was handed over. The next read shows the new holder.
            lock["at_ms"] = .integer(endedMilliseconds)
            lock.merge(unheldMembers) { $1 }
        }
        lock["fence"] = .integer(grant.fence)
        lock["permits"] = .null
        lock["here"] = .bool(true)
        return lock
    }

    /// Updates the row of a lock with several holders. Corrects the number of holders by the grants and ends since the
    /// row was read, but does not change the list of leases.
    private static func updatedShared(
        _ lock: [String: JSONValue], by grants: [GrantRecord], seenMilliseconds: Int64
    ) -> [String: JSONValue] {
        var lock = lock
        let addedGrants = grants.filter { $0.grantedMilliseconds > seenMilliseconds && $0.end == nil }
        let removedCount = grants.count {
            $0.grantedMilliseconds <= seenMilliseconds && ($0.endedMilliseconds ?? .min) > seenMilliseconds
        }
        guard !addedGrants.isEmpty || removedCount > 0 else { return lock }
        let holderCount = max(0, integer(lock["holders"]) + Int64(addedGrants.count - removedCount))
        lock["holders"] = .integer(holderCount)
        lock["here"] = .bool(true)
        if let newest = addedGrants.first {
            let grantedMilliseconds = newest.grantedMilliseconds
            let rowEndMilliseconds = endMilliseconds(of: lock)
            lock["label"] = .string(newest.label)
            lock["fence"] = .integer(newest.fence)
            lock["mode"] = .string(newest.mode.rawName)
            lock["permits"] = newest.mode.permits.map { .integer(Int64($0)) } ?? .null
            let newEndMilliseconds = max(rowEndMilliseconds, addedGrants.map(\.promisedMilliseconds).max() ?? 0)
            lock["ttl_ms"] = .integer(newEndMilliseconds - grantedMilliseconds)
            lock["at_ms"] = .integer(grantedMilliseconds)
        } else if holderCount == 0 {
            lock.merge(unheldMembers) { $1 }
        }
        return lock
    }
}

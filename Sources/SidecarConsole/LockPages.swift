internal import Interlock
internal import InterlockCore
internal import SidecarListeners

/// A page of the locks that are held: read from Redis in a bounded number of steps, and brought up to date with what this sidecar
/// did since.
final class LockPages {
    private let calls: CoordinatorCalls
    private let search: ExactText
    private let deadline: Instant
    private let startedMilliseconds: Int64
    private var cursor: String
    private var names: [ResourceName] = []
    private var steps = 0
    /// How often the next step is twice as wide.
    private var widenings = 0
    private var commands = 0

    /// A page ends when it has so many.
    private static let most = 50
    /// The same where each is looked at by itself.
    private static let mostApart = 12
    /// A page shows at most this many times its size if its last step finds more; beyond that, the step starts the next
    /// page.
    private static let mostShown = 2
    /// A page ends after so many steps through the names, whatever they found.
    private static let mostSteps = 8
    /// In milliseconds, beside the last step.
    private static let patience: Int64 = 2000

    init(calls: CoordinatorCalls, search: ExactText, cursor: String) {
        self.calls = calls
        self.search = search
        self.cursor = cursor
        startedMilliseconds = calls.wallTime()
        deadline = calls.now().advanced(byMilliseconds: Self.patience)
    }

    private var size: Int { Self.size(calls) }

    private static func size(_ calls: CoordinatorCalls) -> Int { calls.locksOfCommand == 1 ? mostApart : most }

    /// That a page costs at most.
    static func mostCommands(_ calls: CoordinatorCalls) -> Int {
        // One step more where one found too much, and is made again.
        mostSteps + 1 + commands(lookingAt: mostShown * size(calls), calls)
    }

    private static func commands(lookingAt count: Int, _ calls: CoordinatorCalls) -> Int {
        (count + calls.locksOfCommand - 1) / calls.locksOfCommand
    }

    /// - Parameter done: is also told how many commands it cost.
    func read(_ done: @escaping (Result<[String: JSONValue], InterlockError>, _ commands: Int) -> Void) {
        let glob = search.text.isEmpty ? "*" : "*\(Self.literally(search.text))*"
        // The more steps were in vain, the wider is the next: other keys may be many.
        let count = min(1000, size << widenings)
        calls.listLocks(
            cursor: cursor, matching: glob, count: count,
            completion: Completion { [self] _, answer in
                steps += 1
                commands += 1
                switch answer {
                case .failure(let error): done(.failure(error), commands)
                case .success(let page):
                    // A foreign key may have a name that is none of ours.
                    let found = page.names.compactMap { try? ResourceName($0) }
                    let isTooMuch = names.count + found.count > Self.mostShown * size
                    if isTooMuch, !names.isEmpty {
                        // No name is passed over: the cursor stays before this step.
                        look(done)
                    } else if isTooMuch, widenings > 0 {
                        widenings = 0
                        read(done)
                    } else {
                        cursor = page.cursor
                        names += found
                        widenings += 1
                        let isOver = cursor == "0" || names.count >= size || steps >= Self.mostSteps || calls.now() >= deadline
                        if isOver { look(done) } else { read(done) }
                    }
                }
                return true
            })
    }

    private func look(_ done: @escaping (Result<[String: JSONValue], InterlockError>, _ commands: Int) -> Void) {
        // A name may come twice while the keys are being moved.
        let names = Set(names).sorted { $0.text < $1.text }
        let (cursor, isComplete, wall) = (cursor, cursor == "0", startedMilliseconds)
        guard !names.isEmpty else { return done(.success(Self.page([], cursor: cursor, isComplete: isComplete)), commands) }
        commands += Self.commands(lookingAt: names.count, calls)
        calls.inspectLocks(names) { [commands] answer in
            done(
                answer.map { locks in
                    Self.page(
                        locks.compactMap { lock in
                            lock.map { LockReply.members($0).merging(["at_ms": .integer(wall), "here": .flag(false)]) { $1 } }
                        }, cursor: cursor, isComplete: isComplete)
                }, commands)
        }
    }

    /// A page that nothing was found for yet.
    static let empty = page([], cursor: "0", isComplete: false)

    private static func page(_ rows: [[String: JSONValue]], cursor: String, isComplete: Bool) -> [String: JSONValue] {
        ["locks": .list(rows.map { .object($0) }), "cursor": .text(cursor), "complete": .flag(isComplete)]
    }

    /// A glob that matches this text alone.
    private static func literally(_ text: String) -> String {
        var glob = ""
        for scalar in text.unicodeScalars {
            if "*?[]\\^-".unicodeScalars.contains(scalar) { glob += "\\" }
            glob.unicodeScalars.append(scalar)
        }
        return glob
    }

    // MARK: What this sidecar did since

    /// The page as it is now, as far as this sidecar knows.
    /// - Parameters:
    ///   - grants: its last ones, the newest first.
    ///   - isFirst: locks that this sidecar has granted, and that are not on the page, are put on it.
    static func members(
        _ reading: LiveReading, _ grants: [GrantRecord], search: ExactText, isFirst: Bool
    ) -> [String: JSONValue] {
        var page = reading.members(empty: empty)
        guard let content = reading.content, case .list(let read) = page["locks"] else { return page }
        var own: [ExactText: [GrantRecord]] = [:]
        for grant in grants where search.isPart(of: grant.name) { own[ExactText(grant.name), default: []].append(grant) }
        guard !own.isEmpty else { return page }
        var rows: [JSONValue] = read.map { row in
            guard case .object(let lock) = row, case .text(let name) = lock["name"],
                let grants = own.removeValue(forKey: ExactText(name))
            else { return row }
            return .object(updated(lock, by: grants, seenAt: content.seenMilliseconds))
        }
        if isFirst {
            for (name, grants) in own.sorted(by: { $0.key.text < $1.key.text }) where grants.contains(where: { $0.end == nil }) {
                guard let name = try? ResourceName(name.text) else { continue }
                let lock = LockReply.members(LockInformation(unheld: name)).merging(["at_ms": .integer(0)]) { $1 }
                rows.append(.object(updated(lock, by: grants, seenAt: 0)))
            }
        }
        page["locks"] = .list(rows)
        return page
    }

    /// - Parameters:
    ///   - grants: of this lock through this sidecar, the newest first.
    ///   - seenAt: when what is read of it had come.
    private static func updated(
        _ lock: [String: JSONValue], by grants: [GrantRecord], seenAt: Int64
    ) -> [String: JSONValue] {
        guard let newest = grants.first else { return lock }
        return newest.mode == .exclusive ? updated(lock, by: newest) : updatedTogether(lock, by: grants, seenAt: seenAt)
    }

    /// The members of a lock that nobody holds.
    private static let free: [String: JSONValue] = [
        "holders": .integer(0), "label": .null, "mode": .null, "ttl_ms": .integer(0), "leases": .list([]),
    ]

    private static func integer(_ value: JSONValue?) -> Int64 {
        if case .integer(let number) = value { number } else { 0 }
    }

    /// Returns the end of the lease, or of the last of several. A key's time to live may have any size.
    private static func end(of lock: [String: JSONValue]) -> Int64 {
        let (end, isBeyond) = integer(lock["at_ms"]).addingReportingOverflow(integer(lock["ttl_ms"]))
        return isBeyond ? .max : end
    }

    /// A lock that one has alone: fences tell what came after what.
    private static func updated(_ lock: [String: JSONValue], by grant: GrantRecord) -> [String: JSONValue] {
        var lock = lock
        let fence = integer(lock["fence"])
        guard grant.fence >= fence else { return lock }
        if grant.end == nil {
            // Read after its last renewal.
            if grant.fence == fence, integer(lock["holders"]) > 0, grant.promisedMilliseconds <= end(of: lock) { return lock }
            let remaining = JSONValue.integer(grant.promisedMilliseconds - grant.grantedMilliseconds)
            lock["at_ms"] = .integer(grant.grantedMilliseconds)
            lock["holders"] = .integer(1)
            lock["label"] = .text(grant.label)
            lock["mode"] = .text(grant.mode.word)
            lock["ttl_ms"] = remaining
            lock["leases"] = .list([
                .object(["label": .text(grant.label), "fence": .integer(grant.fence), "ttl_ms": remaining])
            ])
        } else {
            guard integer(lock["holders"]) > 0 || grant.fence > fence else { return lock }
            // What was read after it had ended knows better: it may have been extended in another way.
            // Without a fence nothing tells what came after what: another program may have made the key.
            let endedAt = grant.endedMilliseconds ?? grant.grantedMilliseconds
            let isLater = lock["fence"] != .null && grant.fence > fence
            guard endedAt >= integer(lock["at_ms"]) || isLater else { return lock }
            // Where others wait it was passed on; the next reading tells to whom.
            lock["at_ms"] = .integer(endedAt)
            lock.merge(free) { $1 }
        }
        lock["fence"] = .integer(grant.fence)
        lock["permits"] = .null
        lock["here"] = .flag(true)
        return lock
    }

    /// A lock that several have: who came and went here since it was read is counted; its leases stay as they were read.
    private static func updatedTogether(
        _ lock: [String: JSONValue], by grants: [GrantRecord], seenAt: Int64
    ) -> [String: JSONValue] {
        var lock = lock
        let come = grants.filter { $0.grantedMilliseconds > seenAt && $0.end == nil }
        let gone = grants.count { $0.grantedMilliseconds <= seenAt && ($0.endedMilliseconds ?? .min) > seenAt }
        guard !come.isEmpty || gone > 0 else { return lock }
        let holders = max(0, integer(lock["holders"]) + Int64(come.count - gone))
        lock["holders"] = .integer(holders)
        lock["here"] = .flag(true)
        if let newest = come.first {
            let at = newest.grantedMilliseconds
            let readUntil = end(of: lock)
            lock["label"] = .text(newest.label)
            lock["fence"] = .integer(newest.fence)
            lock["mode"] = .text(newest.mode.word)
            lock["permits"] = newest.mode.permits.map { .integer(Int64($0)) } ?? .null
            lock["ttl_ms"] = .integer(max(readUntil, come.map(\.promisedMilliseconds).max() ?? 0) - at)
            lock["at_ms"] = .integer(at)
        } else if holders == 0 {
            lock.merge(free) { $1 }
        }
        return lock
    }
}

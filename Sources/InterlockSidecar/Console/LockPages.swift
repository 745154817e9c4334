internal import Interlock
internal import InterlockCore

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

    /// A page ends when it has so many, on a cluster where each is looked at by itself.
    private static let most = 50
    private static let mostOnCluster = 15
    /// What one step found more is shown up to here.
    private static let mostShown = 200
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

    private var size: Int { calls.isOnCluster ? Self.mostOnCluster : Self.most }

    func read(_ done: @escaping (Result<[String: JSONValue], InterlockError>) -> Void) {
        let isSearch = !search.text.isEmpty
        // The more steps were in vain, the wider is the next.
        let count = min(1000, size << (isSearch ? steps : 0))
        calls.listLocks(
            cursor: cursor, matching: isSearch ? "*\(Self.literally(search.text))*" : "*", count: count,
            completion: Completion { [self] _, answer in
                steps += 1
                switch answer {
                case .failure(let error): done(.failure(error))
                case .success(let page):
                    cursor = page.cursor
                    // A foreign key may have a name that is none of ours.
                    names += page.names.compactMap { try? ResourceName($0) }
                    let isOver = cursor == "0" || names.count >= size || steps >= Self.mostSteps || calls.now() >= deadline
                    if isOver { look(done) } else { read(done) }
                }
                return true
            })
    }

    private func look(_ done: @escaping (Result<[String: JSONValue], InterlockError>) -> Void) {
        // A name may come twice while the keys are being moved.
        let names = Array(Set(names).sorted { $0.text < $1.text }.prefix(Self.mostShown))
        let (cursor, wall) = (cursor, startedMilliseconds)
        guard !names.isEmpty else { return done(.success(Self.page([], cursor: cursor))) }
        calls.inspectLocks(names) { answer in
            done(
                answer.map { locks in
                    Self.page(
                        locks.compactMap { lock in
                            lock.map { LockReply.members($0).merging(["at_ms": .integer(wall), "here": .flag(false)]) { $1 } }
                        }, cursor: cursor)
                })
        }
    }

    private static func page(_ rows: [[String: JSONValue]], cursor: String) -> [String: JSONValue] {
        ["locks": .list(rows.map { .object($0) }), "cursor": .text(cursor), "complete": .flag(cursor == "0")]
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
    ///   - isFirst: locks that were granted since, and are not on the page, are put on it.
    static func members(
        _ reading: LiveReading, _ grants: [GrantRecord], search: ExactText, isFirst: Bool
    ) -> [String: JSONValue] {
        var page = reading.members(empty: Self.page([], cursor: "0"))
        guard let readAt = reading.content?.atMilliseconds, case .list(let read) = page["locks"] else { return page }
        var news: [ExactText: [GrantRecord]] = [:]
        for grant in grants where search.isPart(of: grant.name) {
            guard grant.grantedMilliseconds >= readAt || (grant.endedMilliseconds ?? .min) >= readAt else { continue }
            news[ExactText(grant.name), default: []].append(grant)
        }
        guard !news.isEmpty else { return page }
        var rows: [JSONValue] = read.map { row in
            guard case .object(let lock) = row, case .text(let name) = lock["name"],
                let grants = news.removeValue(forKey: ExactText(name))
            else { return row }
            return .object(updated(lock, by: grants, since: readAt))
        }
        if isFirst {
            for (name, grants) in news.sorted(by: { $0.key.text < $1.key.text }) where grants.contains(where: { $0.end == nil }) {
                guard let name = try? ResourceName(name.text) else { continue }
                rows.append(.object(updated(LockReply.members(LockInformation(unheld: name)), by: grants, since: readAt)))
            }
        }
        page["locks"] = .list(rows)
        return page
    }

    /// - Parameter grants: of this lock, the newest first; each begun or ended since it was read.
    private static func updated(
        _ lock: [String: JSONValue], by grants: [GrantRecord], since readAt: Int64
    ) -> [String: JSONValue] {
        var lock = lock
        guard let newest = grants.first else { return lock }
        let holders: Int64
        if newest.mode == .exclusive {
            holders = newest.end == nil ? 1 : 0
        } else {
            let known: Int64 = if case .integer(let count) = lock["holders"] { count } else { 0 }
            let come = grants.count { $0.grantedMilliseconds >= readAt && $0.end == nil }
            let gone = grants.count { $0.grantedMilliseconds < readAt && $0.end != nil }
            holders = max(0, known + Int64(come - gone))
        }
        let holder = grants.first { $0.end == nil }
        lock["holders"] = .integer(holders)
        lock["here"] = .flag(true)
        lock["at_ms"] = .integer(newest.endedMilliseconds ?? newest.grantedMilliseconds)
        lock["mode"] = holders > 0 ? .text(newest.mode.word) : .null
        lock["permits"] = newest.mode.permits.map { .integer(Int64($0)) } ?? .null
        lock["fence"] = .integer(newest.fence)
        if let holder {
            lock["label"] = .text(holder.label)
            lock["ttl_ms"] = .integer(holder.promisedMilliseconds - newest.grantedMilliseconds)
        } else if holders == 0 {
            lock["label"] = .null
            lock["ttl_ms"] = .integer(0)
        }
        return lock
    }
}

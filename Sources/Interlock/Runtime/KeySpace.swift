package import InterlockCore

/// Every key and channel name, in one place. All keys of one thing share a hash tag, so that each script runs on a
/// Redis Cluster. An object, for each script is handed it, and a dozen texts would have to be copied with it.
package final class KeySpace: Sendable {
    /// What every key and channel begins with.
    package let prefix: String
    /// See `LockSettings.keyPrefix`.
    package let lockKeyPrefix: String?
    /// Whether keys are spread over the servers of a cluster: then those that one script reads have a tag, where on one server they
    /// have none.
    let isOnCluster: Bool

    package static let defaultPrefix = InterlockConfiguration.defaultPrefix

    // What stands around a lock's name in its keys, put together once: these keys are written at every acquire.
    let lockStart: String
    let lockEnd: String
    let fenceStart: String
    let queueStart: String
    let holdersStart: String
    let grantsStart: String
    let countsStart: String
    let stillStart: String

    package init(prefix: String = KeySpace.defaultPrefix, lockKeyPrefix: String? = nil, isOnCluster: Bool = false) {
        self.prefix = prefix
        self.isOnCluster = isOnCluster
        self.lockKeyPrefix = lockKeyPrefix
        lockStart = lockKeyPrefix ?? prefix + "lock:{"
        lockEnd = lockKeyPrefix == nil ? "}" : ""
        fenceStart = prefix + "fence:{" + (lockKeyPrefix ?? "")
        queueStart = prefix + "queue:{" + (lockKeyPrefix ?? "")
        holdersStart = prefix + "holders:{" + (lockKeyPrefix ?? "")
        grantsStart = prefix + "grants:{" + (lockKeyPrefix ?? "")
        countsStart = prefix + "waiters:{" + (lockKeyPrefix ?? "")
        stillStart = prefix + "still:{" + (lockKeyPrefix ?? "")
    }

    /// The owner's token: a string with a ttl.
    package func lock(_ name: String) -> String { lockStart + name + lockEnd }

    /// The last fence.
    package func fence(_ name: String) -> String { fenceStart + name + "}" }

    /// The tickets of the sidecars that wait, in order.
    package func queue(_ name: String) -> String { queueStart + name + "}" }

    /// The leases of a lock that several hold, with their ends.
    package func holders(_ name: String) -> String { holdersStart + name + "}" }

    /// The fences of the leases of a lock that several hold.
    package func grants(_ name: String) -> String { grantsStart + name + "}" }

    /// The lock's name, of what stands in the braces of its queue's key.
    func lockName(inBraces text: String) -> String { String(Substring(text.utf8.dropFirst(lockKeyPrefix?.utf8.count ?? 0))) }

    /// The lock's name, if `key` is a lock's key.
    package func lockName(ofKey key: String) -> String? {
        let bytes = key.utf8
        if let lockKeyPrefix {
            guard bytes.starts(with: lockKeyPrefix.utf8), !bytes.starts(with: prefix.utf8) else { return nil }
            return String(Substring(bytes.dropFirst(lockKeyPrefix.utf8.count)))
        }
        guard bytes.count > lockStart.utf8.count + lockEnd.utf8.count, bytes.starts(with: lockStart.utf8),
            bytes.suffix(lockEnd.utf8.count).elementsEqual(lockEnd.utf8)
        else { return nil }
        return String(Substring(bytes.dropFirst(lockStart.utf8.count).dropLast(lockEnd.utf8.count)))
    }

    /// Whether the key of a lock with this name would be one of the fleet's own keys, as `locks.key_prefix` permits.
    func isTaken(lockName name: String) -> Bool {
        guard let lockKeyPrefix else { return false }
        return (lockKeyPrefix + name).utf8.starts(with: prefix.utf8)
    }

    /// The `SCAN` pattern for lock names that match `glob`.
    package func lockPattern(matching glob: String) -> String {
        if let lockKeyPrefix { Self.escaped(lockKeyPrefix) + glob } else { Self.escaped(prefix) + "lock:{" + glob + "}" }
    }

    /// What a limit has counted; of one subject, if it counts for each. A limit's name has neither a colon nor a tilde, so that
    /// no two limits, algorithms and subjects share a key.
    package func rate(service: String, of limit: LimitDefinition, subject: String? = nil) -> String {
        let key = prefix + "rate:{" + service + "}:" + limit.name + Self.suffix(of: limit.algorithm)
        return if let subject { key + Self.subjectSeparator + subject } else { key }
    }

    /// What stands before the names of counters of a domain's descriptors in their keys. Behind them stands the limit's name: the last colon
    /// ends the counter's.
    func descriptors(ofDomain domain: String) -> String { prefix + "descriptors:{" + domain + "}:" }

    /// What stands before the names of a domain's buckets in the keys of their shares.
    func quotas(ofDomain domain: String) -> String { prefix + "quota:{" + domain + "}:" }

    /// What stands behind a descriptor's counter in its key.
    func descriptorLimit(_ limit: LimitDefinition, isAligned: Bool) -> String {
        ":" + limit.name + (isAligned ? "~aligned" : Self.suffix(of: limit.algorithm))
    }

    private static func suffix(of algorithm: LimitAlgorithm) -> String {
        switch algorithm {
        case .fixed: ""
        case .sliding: "~sliding"
        case .gcra: "~gcra"
        }
    }

    /// Stands before the subject in the key of its counter.
    static let subjectSeparator = ":"

    /// The arrival time of `CL.THROTTLE`.
    package func throttle(_ key: String) -> String { prefix + "throttle:{" + key + "}" }

    /// A breaker's state.
    package func breaker(_ service: String) -> String { prefix + "breaker:{" + service + "}" }
    /// Every change of a breaker's state.
    package func breakerHistory(_ service: String) -> String { breaker(service) + ":history" }
    /// The outcomes of the window, in slices, of the version before, which had one for all lengths: it goes when nobody runs that any more.
    func breakerWindowBefore(_ service: String) -> String { breaker(service) + ":window" }
    /// The outcomes of the window, in slices.
    package func breakerWindow(_ service: String, _ window: BreakerSettings.Window) -> String {
        switch window {
        case .time(let length): breaker(service) + ":window:\(length.wholeMilliseconds)ms"
        case .calls(let count): breaker(service) + ":window:\(count)calls"
        }
    }
    /// The trial permits under way.
    package func breakerTrials(_ service: String) -> String { breaker(service) + ":trials" }
    /// The sidecars that find the service bad, where more than one must.
    package func breakerVotes(_ service: String) -> String { breaker(service) + ":votes" }

    /// The live sidecars.
    package var fleet: String { prefix + (isOnCluster ? "{fleet}" : "fleet") }
    /// What never exists, beside the list: see `LockKeys`.
    var fleetStill: String? { isOnCluster ? fleet + ":still" : nil }
    /// What is known of one sidecar.
    package func fleetMember(_ id: String) -> String { fleet + ":" + id }

    /// The channel of typed events.
    package var events: String { prefix + "events" }
    /// What the wake channels begin with.
    package var wakePrefix: String { prefix + "wake:" }
    /// The channel that wakes one sidecar.
    package func wake(_ id: String) -> String { wakePrefix + id }
    /// The channel that wakes one sidecar of a cluster for a lock, in the slot of the lock's keys.
    func wake(_ id: String, ofLock name: String) -> String { wake(id) + ":{" + (lockKeyPrefix ?? "") + name + "}" }

    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text {
            if "*?[]\\^".contains(character) { escaped.append("\\") }
            escaped.append(character)
        }
        return escaped
    }
}

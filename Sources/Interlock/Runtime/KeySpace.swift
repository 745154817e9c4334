package import InterlockCore

/// The names of all keys and channels. The keys of one entity share a hash tag, so that its scripts also run on a
/// cluster. A class, because every script refers to it and a struct would copy a dozen strings.
package final class KeySpace: Sendable {
    /// The prefix of every key and channel.
    package let prefix: String
    /// The prefix of the keys of locks, instead of `prefix`; see `LockSettings.keyPrefix`.
    package let lockKeyPrefix: String?
    /// Whether keys are distributed over the servers of a cluster. The keys of the fleet then have a hash tag, because
    /// one script reads them together.
    let isOnCluster: Bool

    package static let defaultPrefix = InterlockConfiguration.defaultPrefix

    // The parts around a lock's name in its keys, precomputed because every acquire encodes these keys.
    let lockStart: String
    let lockEnd: String
    let fenceStart: String
    let queueStart: String
    let holdersStart: String
    let grantsStart: String
    let countsStart: String
    let guardStart: String

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
        guardStart = prefix + "still:{" + (lockKeyPrefix ?? "")
    }

    /// The key of the owner's token, a string with a TTL.
    package func lock(_ name: String) -> String { lockStart + name + lockEnd }

    /// The key of the last fence.
    package func fence(_ name: String) -> String { fenceStart + name + "}" }

    /// The key of the tickets of the waiting sidecars, in order.
    package func queue(_ name: String) -> String { queueStart + name + "}" }

    /// The key of a group's leases with their ends.
    package func holders(_ name: String) -> String { holdersStart + name + "}" }

    /// The key of the fences of a group's leases.
    package func grants(_ name: String) -> String { grantsStart + name + "}" }

    /// Returns the lock's name, given the hash tag of its queue's key.
    func lockName(inBraces tag: String) -> String {
        String(Substring(tag.utf8.dropFirst(lockKeyPrefix?.utf8.count ?? 0)))
    }

    /// Returns the lock's name; `nil` if `key` is not a lock's key.
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

    /// Returns whether the key of a lock with this name would collide with the fleet's keys, which is possible with
    /// `locks.key_prefix`.
    func isReserved(lockName name: String) -> Bool {
        guard let lockKeyPrefix else { return false }
        return (lockKeyPrefix + name).utf8.starts(with: prefix.utf8)
    }

    /// The `SCAN` pattern for lock names that match `glob`.
    package func lockPattern(matching glob: String) -> String {
        if let lockKeyPrefix { Self.escaped(lockKeyPrefix) + glob } else { Self.escaped(prefix) + "lock:{" + glob + "}" }
    }

    /// The key of a limit's counter, for one subject if the limit counts per subject. A limit's name has neither a
    /// colon nor a tilde, so no two limits, algorithms and subjects share a key.
    package func rate(service: String, of limit: LimitDefinition, subject: String? = nil) -> String {
        let key = prefix + "rate:{" + service + "}:" + limit.name + Self.suffix(of: limit.algorithm)
        return if let subject { key + Self.subjectSeparator + subject } else { key }
    }

    /// The part of the key before the name of a descriptor's counter. The limit's name follows the counter's, after the
    /// last colon.
    func descriptors(ofDomain domain: String) -> String { prefix + "descriptors:{" + domain + "}:" }

    /// The part of the key before the name of a bucket, in the keys of a domain's quotas.
    func quotas(ofDomain domain: String) -> String { prefix + "quota:{" + domain + "}:" }

    /// The part of the key after the name of a descriptor's counter.
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

    /// The separator before the subject in the key of its counter.
    static let subjectSeparator = ":"

    /// The key of the arrival time of `CL.THROTTLE`.
    package func throttle(_ key: String) -> String { prefix + "throttle:{" + key + "}" }

    /// The key of a breaker's state.
    package func breaker(_ service: String) -> String { prefix + "breaker:{" + service + "}" }
    /// The key of a breaker's history.
    package func breakerHistory(_ service: String) -> String { breaker(service) + ":history" }
    /// The key of the window in earlier versions, which had one key for all lengths. Remove it once no sidecar runs
    /// such a version.
    func legacyBreakerWindow(_ service: String) -> String { breaker(service) + ":window" }
    /// The key of the outcomes in the window, in slices.
    package func breakerWindow(_ service: String, _ window: BreakerSettings.Window) -> String {
        switch window {
        case .time(let length): breaker(service) + ":window:\(length.wholeMilliseconds)ms"
        case .calls(let count): breaker(service) + ":window:\(count)calls"
        }
    }
    /// The key of the trial permits in progress.
    package func breakerTrials(_ service: String) -> String { breaker(service) + ":trials" }
    /// The key of the sidecars that have voted to open the breaker, if more than one must.
    package func breakerVotes(_ service: String) -> String { breaker(service) + ":votes" }

    /// The key of the list of live sidecars.
    package var fleet: String { prefix + (isOnCluster ? "{fleet}" : "fleet") }
    /// The key that never exists in the hash slot of the list; `nil` without a cluster. See `LockKeys`.
    var fleetMigrationGuard: String? { isOnCluster ? fleet + ":still" : nil }
    /// The key of one sidecar's description.
    package func fleetMember(_ id: String) -> String { fleet + ":" + id }

    /// The channel of typed events.
    package var events: String { prefix + "events" }
    /// The prefix of the wake channels.
    package var wakePrefix: String { prefix + "wake:" }
    /// The channel that wakes one sidecar.
    package func wake(_ id: String) -> String { wakePrefix + id }
    /// The channel that wakes one sidecar of a cluster for a lock, in the hash slot of the lock's keys.
    func wake(_ id: String, ofLock name: String) -> String { wake(id) + ":{" + (lockKeyPrefix ?? "") + name + "}" }

    /// Escapes the characters that have a meaning in a `SCAN` pattern.
    private static func escaped(_ prefix: String) -> String {
        var escaped = ""
        for character in prefix {
            if "*?[]\\^".contains(character) { escaped.append("\\") }
            escaped.append(character)
        }
        return escaped
    }
}

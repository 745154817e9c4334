/// As much of Redis as the scripts use: keys of four types that lapse, a clock that jumps when it is told to, and messages.
///
/// The scripts' rules are extensions of it, one file for each script. Replies have the shapes that the real scripts' have.
struct ModelRedis {
    enum Value: Hashable {
        case string(String)
        /// Member and score; ordered by score and then by member.
        case sortedSet([String: Double])
        case hash([String: String])
        /// Entries, each of fields and values in turn; without their IDs.
        case stream([[String]])
    }

    /// A key's value, and what is left of its time in ms; `nil`: it does not lapse.
    struct Content: Hashable {
        var value: Value
        var ttl: Int64?
    }

    private struct Entry {
        var value: Value
        /// In ms of its clock; it is gone when the clock shows more.
        var expiresAt: Int64?
    }

    /// A message that was published.
    struct Message: Hashable {
        var channel: String
        var text: String
    }

    /// What `TIME` says, in microseconds of the Unix epoch.
    var microseconds: Int64
    /// The rule that is broken on purpose, to see whether somebody notices.
    var mutant: Mutant?
    /// What was published since it was last taken.
    private(set) var published: [Message] = []
    /// Who listens to which channel, for the count that `PUBLISH` replies with.
    var subscribers: [String: Int] = [:]
    private var entries: [String: Entry] = [:]
    /// Keys that were read by who wants to be told of their next change.
    private var tracked: Set<String> = []
    /// Those of them that were changed since they were last taken.
    private var changed: [String] = []

    init(microseconds: Int64, mutant: Mutant? = nil) {
        self.microseconds = microseconds
        self.mutant = mutant
    }

    var milliseconds: Int64 { microseconds / 1000 }

    mutating func takePublished() -> [Message] {
        defer { published = [] }
        return published
    }

    /// Forgets everything but its clock.
    mutating func wipe() {
        entries = [:]
    }

    /// Every key that there is, as a reader finds it. O(keys).
    var contents: [String: Content] {
        entries.filter { live($0.key) != nil }.mapValues { entry in
            Content(value: entry.value, ttl: entry.expiresAt.map { $0 - milliseconds })
        }
    }

    /// Forgets for good what has lapsed, as Redis does sooner or later: it does not come back when the clock is set back.
    /// Returns the keys.
    @discardableResult
    mutating func dropLapsed() -> [String] {
        let lapsed = entries.keys.filter { live($0) == nil }
        for key in lapsed { entries[key] = nil }
        return lapsed
    }

    /// Its process began anew: it has its keys, and knows of nobody who listens.
    mutating func restart() {
        tracked = []
        changed = []
        published = []
        subscribers = [:]
    }

    // MARK: Keys

    private mutating func write(_ key: String, _ entry: Entry?) {
        if !tracked.isEmpty, entry != nil || entries[key] != nil, tracked.remove(key) != nil { changed.append(key) }
        entries[key] = entry
    }

    private func live(_ key: String) -> Entry? {
        guard let entry = entries[key] else { return nil }
        if let end = entry.expiresAt, end < milliseconds { return nil }
        return entry
    }

    func exists(_ key: String) -> Bool { live(key) != nil }

    mutating func delete(_ keys: String...) {
        for key in keys { write(key, nil) }
    }

    /// -2: there is no such key; -1: without end.
    func pttl(_ key: String) -> Int64 {
        guard let entry = live(key) else { return -2 }
        return entry.expiresAt.map { $0 - milliseconds } ?? -1
    }

    /// Whether there is such a key.
    @discardableResult
    mutating func pexpire(_ key: String, _ ttl: Int64) -> Bool {
        guard live(key) != nil else { return false }
        let end = milliseconds + ttl
        if ttl <= 0 { write(key, nil) } else { write(key, entries[key].map { Entry(value: $0.value, expiresAt: end) }) }
        return true
    }

    // MARK: Strings

    func get(_ key: String) -> String? {
        guard case .string(let text) = live(key)?.value else { return nil }
        return text
    }

    /// `SET key value PX ttl`; without a ttl it does not lapse.
    mutating func set(_ key: String, _ value: String, px ttl: Int64?) {
        write(key, Entry(value: .string(value), expiresAt: ttl.map { milliseconds + $0 }))
    }

    /// `SET key value NX PX ttl`: whether it was free.
    mutating func setIfAbsent(_ key: String, _ value: String, px ttl: Int64) -> Bool {
        guard !exists(key) else { return false }
        set(key, value, px: ttl)
        return true
    }

    /// `SET key value KEEPTTL`, as `INCRBY` does.
    mutating func setKeepingTTL(_ key: String, _ value: String) {
        write(key, Entry(value: .string(value), expiresAt: live(key)?.expiresAt))
    }

    // MARK: Sorted sets

    private func set(at key: String) -> [String: Double] {
        guard case .sortedSet(let set) = live(key)?.value else { return [:] }
        return set
    }

    private mutating func store(_ set: [String: Double], at key: String) {
        let end = live(key)?.expiresAt
        write(key, set.isEmpty ? nil : Entry(value: .sortedSet(set), expiresAt: end))
    }

    /// In order. O(n log n).
    func members(_ key: String) -> [(member: String, score: Double)] {
        set(at: key).map { (member: $0.key, score: $0.value) }
            .sorted { ($0.score, $0.member) < ($1.score, $1.member) }
    }

    func score(_ key: String, _ member: String) -> Double? { set(at: key)[member] }

    func cardinality(_ key: String) -> Int { set(at: key).count }

    mutating func add(_ key: String, _ member: String, score: Double) {
        var set = set(at: key)
        set[member] = score
        store(set, at: key)
    }

    /// Whether it was there.
    @discardableResult
    mutating func remove(_ key: String, _ member: String) -> Bool {
        var set = set(at: key)
        guard set.removeValue(forKey: member) != nil else { return false }
        store(set, at: key)
        return true
    }

    /// `ZPOPMIN`.
    mutating func popFirst(_ key: String) -> String? {
        guard let first = members(key).first?.member else { return nil }
        remove(key, first)
        return first
    }

    /// `ZREMRANGEBYSCORE key -inf score`.
    mutating func removeMembers(_ key: String, upTo score: Double) {
        let set = set(at: key)
        let kept = set.filter { $0.value > score }
        if kept.count != set.count { store(kept, at: key) }
    }

    // MARK: Hashes

    func fields(_ key: String) -> [String: String] {
        guard case .hash(let fields) = live(key)?.value else { return [:] }
        return fields
    }

    mutating func setFields(_ key: String, _ new: [String: String]) {
        let end = live(key)?.expiresAt
        write(key, Entry(value: .hash(fields(key).merging(new) { $1 }), expiresAt: end))
    }

    mutating func deleteField(_ key: String, _ name: String) {
        var fields = fields(key)
        guard fields.removeValue(forKey: name) != nil else { return }
        let end = live(key)?.expiresAt
        write(key, fields.isEmpty ? nil : Entry(value: .hash(fields), expiresAt: end))
    }

    // MARK: Streams

    mutating func append(_ key: String, _ fields: [String]) {
        var entries: [[String]] = []
        if case .stream(let known) = live(key)?.value { entries = known }
        entries.append(fields)
        write(key, Entry(value: .stream(entries), expiresAt: nil))
    }

    // MARK: Tracking

    /// The next change of the key is told.
    mutating func track(_ key: String) {
        tracked.insert(key)
    }

    mutating func takeChanged() -> [String] {
        guard !changed.isEmpty else { return [] }
        defer { changed = [] }
        return changed
    }

    /// Whether a key is still there: one that has lapsed is dropped, and that is a change.
    mutating func dropIfLapsed(_ key: String) {
        if entries[key] != nil, live(key) == nil { write(key, nil) }
    }

    // MARK: Messages

    /// How many heard it.
    @discardableResult
    mutating func publish(_ channel: String, _ text: String) -> Int {
        published.append(Message(channel: channel, text: text))
        return subscribers[channel] ?? 0
    }
}

/// All keys of a server. A copy is a snapshot. Copying is free; the first change of a copy costs O(n).
///
/// Keys have the order of their creation, which is the same in every process.
package struct Keyspace: Sendable {
    struct Entry: Sendable {
        let key: Bytes
        var value: Value
        /// The time at which the key expires, as Unix time in milliseconds; `nil` if it does not expire.
        var expiryMilliseconds: Int64?
        /// The sequence number, which rises with every new key.
        let number: UInt64
    }

    /// The entries in the order of `number`; `nil` for removed keys.
    private var entries: [Entry?] = []
    private var positions: [Bytes: Int] = [:]
    private var lastNumber: UInt64 = 0

    package init() {}

    package var count: Int { positions.count }

    var all: some Sequence<Entry> { entries.lazy.compactMap { $0 } }

    subscript(key: Bytes) -> Entry? {
        positions[key].flatMap { entries[$0] }
    }

    /// Returns whether the key's value is this string, or a sorted set with this member.
    package func holds(_ text: String, in key: String) -> Bool {
        switch self[Bytes(key)]?.value {
        case .string(let bytes): bytes == Bytes(text)
        case .sortedSet(let set): set.score(of: Bytes(text)) != nil
        default: false
        }
    }

    /// Creates a key, or replaces its value and the time at which it expires.
    mutating func set(_ key: Bytes, to value: Value, expiryMilliseconds: Int64?) {
        if let position = positions[key] {
            entries[position]?.value = value
            entries[position]?.expiryMilliseconds = expiryMilliseconds
            return
        }
        lastNumber += 1
        positions[key] = entries.count
        entries.append(Entry(key: key, value: value, expiryMilliseconds: expiryMilliseconds, number: lastNumber))
    }

    mutating func setExpiry(of key: Bytes, to expiryMilliseconds: Int64?) {
        if let position = positions[key] { entries[position]?.expiryMilliseconds = expiryMilliseconds }
    }

    /// Changes the value of an existing key in place.
    mutating func update<Result>(_ key: Bytes, _ change: (inout Value) -> Result) -> Result? {
        guard let position = positions[key], var entry = entries[position] else { return nil }
        // Removing the entry meanwhile leaves one reference to the value, so the change copies nothing.
        entries[position] = nil
        defer { entries[position] = entry }
        return change(&entry.value)
    }

    /// Removes a key. Returns whether it existed.
    mutating func remove(_ key: Bytes) -> Bool {
        guard let position = positions.removeValue(forKey: key) else { return false }
        entries[position] = nil
        if position == entries.count - 1 {
            entries.removeLast()
        } else if entries.count > 32, positions.count < entries.count / 2 {
            compact()
        }
        return true
    }

    /// Removes the gaps. O(n), after O(n) removals.
    private mutating func compact() {
        entries.removeAll { $0 == nil }
        for (position, entry) in entries.enumerated() {
            if let entry { positions[entry.key] = position }
        }
    }

    /// Returns up to `count` entries that follow the one with this number. The cursor is the number of the last one, or
    /// 0 at the end.
    func scan(after number: UInt64, count: Int) -> (cursor: UInt64, entries: [Entry]) {
        var found: [Entry] = []
        for entry in entries.lazy.compactMap({ $0 }) where entry.number > number {
            if found.count == count, let last = found.last { return (last.number, found) }
            found.append(entry)
        }
        return (0, found)
    }
}

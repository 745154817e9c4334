/// The value of a key.
enum Value: Sendable {
    case string(Bytes)
    case hash(FieldMap)
    case sortedSet(SortedSet)
    case stream(StreamLog)

    /// The type's name in `TYPE` and `SCAN`.
    var typeName: StaticString {
        switch self {
        case .string: "string"
        case .hash: "hash"
        case .sortedSet: "zset"
        case .stream: "stream"
        }
    }
}

/// A hash. Its fields keep their order, as in Redis's compact encoding. In Redis, the fields of big hashes have no
/// order.
struct FieldMap: Sendable {
    private var positions: [Bytes: Int] = [:]
    /// The fields in order; `nil` for removed ones.
    private var fields: [(name: Bytes, value: Bytes)?] = []

    var count: Int { positions.count }

    var all: [(name: Bytes, value: Bytes)] { fields.compactMap { $0 } }

    subscript(name: Bytes) -> Bytes? {
        positions[name].flatMap { fields[$0]?.value }
    }

    /// Sets a field. Returns whether it is new.
    mutating func set(_ name: Bytes, to value: Bytes) -> Bool {
        if let position = positions[name] {
            fields[position]?.value = value
            return false
        }
        positions[name] = fields.count
        fields.append((name, value))
        return true
    }

    /// Removes a field. Returns whether it existed.
    mutating func remove(_ name: Bytes) -> Bool {
        guard let position = positions.removeValue(forKey: name) else { return false }
        fields[position] = nil
        if fields.count > 16, positions.count < fields.count / 2 { compact() }
        return true
    }

    /// Removes the gaps. O(n), after O(n) removals.
    private mutating func compact() {
        fields.removeAll { $0 == nil }
        for (position, field) in fields.enumerated() {
            if let field { positions[field.name] = position }
        }
    }
}

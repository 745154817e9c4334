/// The commands' access to keys. For commands, expired keys do not exist.
extension SimulatedServer {
    /// Returns a key's entry. Deletes it if it has expired, unless the server is a replica.
    func entry(_ key: Bytes) -> Keyspace.Entry? {
        guard let entry = keyspace[key] else { return nil }
        guard hasExpired(entry) else { return entry }
        // A replica does not delete the key until its primary does.
        if !isReplica { _ = remove(key) }
        return nil
    }

    /// Returns a key's entry. Changes nothing, even if the key has expired.
    func existingEntry(_ key: Bytes) -> Keyspace.Entry? {
        keyspace[key].flatMap { hasExpired($0) ? nil : $0 }
    }

    /// Returns whether an entry has expired. A key still exists in the millisecond in which it expires.
    func hasExpired(_ entry: Keyspace.Entry) -> Bool {
        entry.expiryMilliseconds.map { milliseconds > $0 } ?? false
    }

    /// Removes a key. Returns whether it existed.
    func remove(_ key: Bytes) -> Bool {
        guard keyspace.remove(key) else { return false }
        signalChange(of: key)
        return true
    }

    func string(_ key: Bytes) throws(CommandError) -> Bytes? {
        switch entry(key)?.value {
        case nil: return nil
        case .string(let value): return value
        default: throw .wrongType
        }
    }

    func hash(_ key: Bytes) throws(CommandError) -> FieldMap? {
        switch entry(key)?.value {
        case nil: return nil
        case .hash(let fields): return fields
        default: throw .wrongType
        }
    }

    func sortedSet(_ key: Bytes) throws(CommandError) -> SortedSet? {
        switch entry(key)?.value {
        case nil: return nil
        case .sortedSet(let set): return set
        default: throw .wrongType
        }
    }

    func stream(_ key: Bytes) throws(CommandError) -> StreamLog? {
        switch entry(key)?.value {
        case nil: return nil
        case .stream(let stream): return stream
        default: throw .wrongType
        }
    }

    /// Changes a hash in place. Creates it if necessary.
    func updateHash<Result>(_ key: Bytes, _ change: (inout FieldMap) -> Result) throws(CommandError) -> Result {
        if try hash(key) == nil { keyspace.set(key, to: .hash(FieldMap()), expiryMilliseconds: nil) }
        return try update(key) { value in
            guard case .hash(var fields) = value else { return nil }
            // The placeholder makes this the only reference to the fields, so the change copies nothing.
            value = .placeholder
            defer { value = .hash(fields) }
            return change(&fields)
        }
    }

    /// Changes a sorted set in place. Creates it if necessary.
    func updateSortedSet<Result>(_ key: Bytes, _ change: (inout SortedSet) -> Result) throws(CommandError) -> Result {
        if try sortedSet(key) == nil { keyspace.set(key, to: .sortedSet(SortedSet()), expiryMilliseconds: nil) }
        return try update(key) { value in
            guard case .sortedSet(var set) = value else { return nil }
            value = .placeholder
            defer { value = .sortedSet(set) }
            return change(&set)
        }
    }

    /// Changes a stream in place. Creates it if necessary.
    func updateStream<Result>(_ key: Bytes, _ change: (inout StreamLog) -> Result) throws(CommandError) -> Result {
        if try stream(key) == nil { keyspace.set(key, to: .stream(StreamLog()), expiryMilliseconds: nil) }
        return try update(key) { value in
            guard case .stream(var stream) = value else { return nil }
            value = .placeholder
            defer { value = .stream(stream) }
            return change(&stream)
        }
    }

    private func update<Result>(_ key: Bytes, _ change: (inout Value) -> Result?) throws(CommandError) -> Result {
        guard let result = keyspace.update(key, change) ?? nil else { throw .wrongType }
        return result
    }
}

extension Value {
    /// A temporary value that replaces the one being changed. It allocates no memory.
    fileprivate static let placeholder = Value.string(Bytes([]))
}

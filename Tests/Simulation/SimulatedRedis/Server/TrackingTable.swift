/// Which connections read which keys: `CLIENT TRACKING`. A key is forgotten when it is changed, whoever is told of it.
struct TrackingTable {
    static let channel: Bytes = "__redis__:invalidate"

    /// What a connection that tracks its reads asked for.
    struct Options {
        /// The connection that is told; `nil`: nobody can be, by RESP2.
        var redirect: Int64?
        /// `NOLOOP`: its own changes are not told.
        var isForOthersOnly: Bool
    }

    private var readers: [Bytes: [Int64]] = [:]

    mutating func remember(_ keys: some Sequence<Bytes>, readBy connection: SimulatedConnection) {
        for key in keys where !(readers[key]?.contains(connection.id) ?? false) {
            readers[key, default: []].append(connection.id)
        }
    }

    /// Forgets a key; returns who read it, the oldest connection first.
    mutating func forget(_ key: Bytes) -> [Int64] {
        readers.isEmpty ? [] : readers.removeValue(forKey: key)?.sorted() ?? []
    }

    mutating func forgetAll() {
        readers = [:]
    }
}

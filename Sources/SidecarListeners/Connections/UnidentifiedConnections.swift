/// The connections of one listener whose clients are still unknown: no completed TLS handshake, API key or request. A
/// full listener closes the oldest one. Pure.
struct UnidentifiedConnections<Connection: AnyObject> {
    /// The maximum number of unknown connections of a listener with TLS: an unfinished handshake takes about 80 KB.
    static var maximumWithTLS: Int { 256 }
    /// The time, in nanoseconds, before a connection may be evicted for lack of capacity: its client may be about to
    /// send a request.
    static var grace: Int64 { 250_000_000 }

    /// The maximum number of unknown connections; `nil` if only the listener's limit applies.
    private let limit: Int?
    /// The waiting connections by order of arrival; clients that have become known leave gaps.
    private var waiting: [Int: (connection: Connection, since: Int64)] = [:]
    private var numbers: [ObjectIdentifier: Int] = [:]
    private var oldest = 0
    private var next = 0

    init(limit: Int?) {
        self.limit = limit
    }

    var count: Int { waiting.count }

    /// Whether more connections are waiting than `limit` allows.
    var isOverLimit: Bool { limit.map { count > $0 } ?? false }

    /// - Parameter now: the uptime, in nanoseconds.
    mutating func add(_ connection: Connection, now: Int64) {
        guard numbers[ObjectIdentifier(connection)] == nil else { return }
        numbers[ObjectIdentifier(connection)] = next
        waiting[next] = (connection, now)
        next += 1
    }

    /// Removes a connection whose client is known or which has ended.
    mutating func remove(_ connection: AnyObject) {
        guard !numbers.isEmpty, let number = numbers.removeValue(forKey: ObjectIdentifier(connection)) else { return }
        waiting[number] = nil
    }

    /// Removes and returns the oldest connection if there are too many or its grace period is over; `nil` if there is
    /// none to evict. Amortized O(1).
    mutating func makeRoom(now: Int64) -> Connection? {
        while oldest < next, waiting[oldest] == nil { oldest += 1 }
        guard let (connection, since) = waiting[oldest], isOverLimit || now - since >= Self.grace else { return nil }
        remove(connection)
        return connection
    }
}

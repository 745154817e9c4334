/// The connections of one listener that have not completed their TLS handshake, or sent an API key or a request. A full
/// listener closes the oldest of them. Pure.
struct UnidentifiedConnections<Connection: AnyObject> {
    /// The maximum number of unidentified connections of a listener with TLS: an unfinished handshake takes about 80
    /// KB.
    static var maximumWithTLS: Int { 256 }
    /// The age, in nanoseconds, at which a connection may be evicted for lack of capacity. The client of a younger one
    /// may be about to send a request.
    static var graceNanoseconds: Int64 { 250_000_000 }

    /// The maximum number of unidentified connections; `nil` if only the listener's limit applies.
    private let limit: Int?
    /// The connections, numbered by order of arrival. Removed connections leave gaps.
    private var waiting: [Int: (connection: Connection, addedAtNanoseconds: Int64)] = [:]
    private var numbers: [ObjectIdentifier: Int] = [:]
    /// A number at or below that of the oldest connection.
    private var oldestNumber = 0
    private var nextNumber = 0

    init(limit: Int?) {
        self.limit = limit
    }

    var count: Int { waiting.count }

    /// Whether there are more connections than `limit` allows.
    var isOverLimit: Bool { limit.map { count > $0 } ?? false }

    /// Adds a connection, unless it was already added.
    /// - Parameter nowNanoseconds: the event loop's monotonic time.
    mutating func add(_ connection: Connection, now nowNanoseconds: Int64) {
        guard numbers[ObjectIdentifier(connection)] == nil else { return }
        numbers[ObjectIdentifier(connection)] = nextNumber
        waiting[nextNumber] = (connection, nowNanoseconds)
        nextNumber += 1
    }

    /// Removes a connection that is identified, or has ended.
    mutating func remove(_ connection: AnyObject) {
        guard !numbers.isEmpty, let number = numbers.removeValue(forKey: ObjectIdentifier(connection)) else { return }
        waiting[number] = nil
    }

    /// Removes and returns the oldest connection, if there are too many or it is old enough; `nil` if no connection may
    /// be evicted. Amortized O(1).
    /// - Parameter nowNanoseconds: the event loop's monotonic time.
    mutating func makeRoom(nowNanoseconds: Int64) -> Connection? {
        while oldestNumber < nextNumber, waiting[oldestNumber] == nil { oldestNumber += 1 }
        guard let (connection, addedAtNanoseconds) = waiting[oldestNumber],
            isOverLimit || nowNanoseconds - addedAtNanoseconds >= Self.graceNanoseconds
        else { return nil }
        remove(connection)
        return connection
    }
}

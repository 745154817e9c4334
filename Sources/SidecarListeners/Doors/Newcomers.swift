/// Connections of one listener whose clients are unknown so far: no finished TLS handshake, no API key, no request.
/// A full listener closes the one that has been unknown for longest. Pure.
struct Newcomers<Connection: AnyObject> {
    /// The most unknown connections where TLS is spoken, per listener: an unfinished handshake takes some 80 KB.
    static var mostWithTLS: Int { 256 }
    /// The nanoseconds in which a connection need not make room for want of places: its client may be about to ask.
    static var grace: Int64 { 250_000_000 }

    /// `nil`: as many as there are places.
    private let most: Int?
    /// By the order in which they came; the numbers of those that are known by now are missing.
    private var waiting: [Int: (connection: Connection, since: Int64)] = [:]
    private var numbers: [ObjectIdentifier: Int] = [:]
    private var oldest = 0
    private var next = 0

    init(most: Int?) {
        self.most = most
    }

    var count: Int { waiting.count }

    /// There are more than may be.
    var areTooMany: Bool { most.map { count > $0 } ?? false }

    /// - Parameter now: in nanoseconds.
    mutating func add(_ connection: Connection, now: Int64) {
        guard numbers[ObjectIdentifier(connection)] == nil else { return }
        numbers[ObjectIdentifier(connection)] = next
        waiting[next] = (connection, now)
        next += 1
    }

    /// Removes a connection whose client is known, or that has ended.
    mutating func remove(_ connection: AnyObject) {
        guard !numbers.isEmpty, let number = numbers.removeValue(forKey: ObjectIdentifier(connection)) else { return }
        waiting[number] = nil
    }

    /// Takes out the connection that came first, if there are too many or its grace is over; `nil`: there is none.
    /// Amortized O(1).
    mutating func makeRoom(now: Int64) -> Connection? {
        while oldest < next, waiting[oldest] == nil { oldest += 1 }
        guard let (connection, since) = waiting[oldest], areTooMany || now - since >= Self.grace else { return nil }
        remove(connection)
        return connection
    }
}

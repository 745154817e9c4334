internal import FoundationEssentials
internal import InterlockCore
internal import RedisClient

/// What a script tells a sidecar that waits for a lock. A message is a hint: it may be lost, and what it says may be over.
/// It goes to one sidecar, which lives in one database, and tickets are used once: it needs no further address.
struct WakeMessage: Codable {
    enum What: String, Codable {
        /// Its turn has come: its ticket stands in the lock until it is claimed or the claim window is over.
        case turn
        /// Another's turn has come, and this sidecar's is next: should the other be dead, it takes over.
        case first
        /// There may be room for one more.
        case look
        /// Somebody looks at the lock: how many wait here?
        case count
    }

    var v: Int
    /// The name, behind `locks.key_prefix` when there is one.
    var lock: String
    var ticket: String
    var what: What

    init?(_ payload: [UInt8]) {
        guard let message = try? JSONDecoder().decode(Self.self, from: Data(payload)), message.v == 1 else { return nil }
        self = message
    }
}

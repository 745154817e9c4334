internal import FoundationEssentials
internal import InterlockCore
internal import RedisClient

/// A message from a script to a sidecar that waits for a lock. It is only a hint: it may be lost or outdated. It is
/// sent to one sidecar, which uses one database, and each ticket is used only once, so the ticket identifies the wait.
struct WakeMessage: Codable {
    enum Kind: String, Codable {
        /// The sidecar's turn: its ticket is stored in the lock until it is claimed or the claim window is over.
        case turn
        /// Another sidecar's turn, with this one next. If the other is dead, this one takes over.
        case first
        /// The lock may have room for another holder.
        case check = "look"
        /// A request to publish the number of waiters, because the lock is being inspected.
        case count
    }

    var v: Int
    /// The lock's name, with `locks.key_prefix` in front if configured.
    var lock: String
    var ticket: String
    var kind: Kind

    private enum CodingKeys: String, CodingKey {
        case v, lock, ticket
        case kind = "what"
    }

    init?(_ payload: [UInt8]) {
        guard let message = try? JSONDecoder().decode(Self.self, from: Data(payload)), message.v == 1 else { return nil }
        self = message
    }
}

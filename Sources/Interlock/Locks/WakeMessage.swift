internal import FoundationEssentials
internal import InterlockCore
internal import RedisClient

/// A message from a script to a sidecar that waits for a lock. It is only a hint, because it may be lost or outdated.
/// The ticket identifies the wait: each ticket is used only once, and the message reaches only one sidecar, which uses
/// one database.
struct WakeMessage: Codable {
    enum Kind: String, Codable {
        /// The sidecar has its turn: the lock contains its ticket until the sidecar claims it or the claim window ends.
        case turn
        /// Another sidecar has its turn, and this one is next. If the other sidecar has died, this one takes over.
        case first
        /// The group that holds the lock may have room for another lease.
        case check = "look"
        /// A request to publish the number of waiters, because the lock is being inspected.
        case count
    }

    /// The version of the format.
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

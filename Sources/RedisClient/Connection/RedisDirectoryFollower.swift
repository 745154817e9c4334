/// A connection whose server address comes from a `RedisDirectory`.
protocol RedisDirectoryFollower: AnyObject {
    /// Whether the connection is up, not started yet, or closed.
    var isUpOrIdle: Bool { get }

    /// Reconnects immediately, because the address belongs to another server now. Pending commands fail.
    func reconnect(because reason: RedisError)

    /// Called when `server()` has changed. A connection that is waiting for an address or for its next attempt
    /// connects.
    func redial()
}

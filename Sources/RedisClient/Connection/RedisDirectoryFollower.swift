/// A connection whose server address comes from a `RedisDirectory`.
protocol RedisDirectoryFollower: AnyObject {
    /// Whether the connection is up, not started yet, or closed.
    var isUpOrIdle: Bool { get }

    /// Reconnects immediately, because the address now belongs to another server. Pending commands fail.
    func reconnect(because reason: RedisError)

    /// Connects now if the connection waits for an address or for its next attempt. The directory calls this when
    /// `server()` has changed.
    func redial()
}

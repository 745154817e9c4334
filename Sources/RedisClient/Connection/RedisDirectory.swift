/// The source of the server address that connections dial, for addresses that can change. Confined to the event loop of
/// its followers.
protocol RedisDirectory: AnyObject {
    /// Whether the login checks the server's role and refuses a server that is not a primary.
    var checksRole: Bool { get }

    /// Returns the address for the next attempt; `nil` if it is not known yet. Once it is known, the directory calls
    /// `redial` on each follower.
    /// - Throws: `RedisError` if the address cannot be determined for now. The directory keeps trying.
    func serverAddress() throws(RedisError) -> RedisConfiguration.Address?

    /// Adds a follower to notify of changes. The directory holds it weakly.
    func add(_ follower: any RedisDirectoryFollower)

    /// Removes a follower that is closed permanently.
    func remove(_ follower: any RedisDirectoryFollower)

    /// Records that a follower is connected to the server at `serverAddress()`.
    func connectionEstablished(_ follower: any RedisDirectoryFollower, _ dialedServer: DialedServer)

    /// Records that a follower's connection ended, that its attempt to connect failed, or that its server is not a
    /// primary.
    func connectionLost(_ follower: any RedisDirectoryFollower, because error: RedisError, at dialedServer: DialedServer)
}

/// The source of the server address that connections dial, where that address can change. Confined to the event loop of
/// its followers.
protocol RedisDirectory: AnyObject {
    /// Whether the login checks the server's role and refuses a server that is not a primary.
    var asksForRole: Bool { get }

    /// Returns the address for the next attempt, or `nil` if it is not known yet: `dialAgain` follows once it is.
    /// - Throws: `RedisError` if the address cannot be determined for now. The directory keeps trying.
    func server() throws(RedisError) -> RedisConfiguration.Address?

    /// Adds `follower`, which is held weakly and notified from now on.
    func add(_ follower: any RedisDirectoryFollower)

    /// Removes `follower`, which is closed for good.
    func remove(_ follower: any RedisDirectoryFollower)

    /// Reports that a follower's connection is up, at `server()`.
    func reached(_ follower: any RedisDirectoryFollower, _ arrival: RedisArrival)

    /// Reports that a follower lost the server, could not reach it, or found that it is not a primary.
    func lost(_ follower: any RedisDirectoryFollower, because error: RedisError, at arrival: RedisArrival)
}

/// Knows which server connections go to where that changes. Confined to the event loop of its followers.
protocol RedisDirectory: AnyObject {
    /// Whether a login asks the server for its role, and refuses one that is no primary.
    var asksForRole: Bool { get }

    /// Where the next attempt goes.
    /// - Returns: `nil` while that is still being found out: the follower is told to dial when it is known.
    /// - Throws: `RedisError` when it cannot be found out for now. It is tried again meanwhile.
    func server() throws(RedisError) -> RedisConfiguration.Address?

    /// From now on `follower` is told; it is not kept alive.
    func add(_ follower: any RedisDirectoryFollower)

    /// Removes `follower`, which is closed for good.
    func remove(_ follower: any RedisDirectoryFollower)

    /// A follower's connection is up, at `server()`.
    func reached(_ follower: any RedisDirectoryFollower, _ arrival: RedisArrival)

    /// Reports that a follower lost the server, could not reach it, or found that it is no primary.
    func lost(_ follower: any RedisDirectoryFollower, because error: RedisError, at arrival: RedisArrival)
}

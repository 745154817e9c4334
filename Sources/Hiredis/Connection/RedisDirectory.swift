/// Knows which server connections go to where that changes. Confined to the event loop of its followers.
package protocol RedisDirectory: AnyObject {
    /// Where the next attempt goes.
    /// - Returns: `nil` while that is still being found out: the follower is told to dial when it is known.
    /// - Throws: `RedisError` when it cannot be found out for now. It is tried again meanwhile.
    func server() throws(RedisError) -> RedisConfiguration.Address?

    /// From now on `follower` is told; it is not kept alive.
    func add(_ follower: any RedisDirectoryFollower)

    /// A follower's connection is up, at `server()`.
    func reached()

    /// A follower lost the server, or found it to be no primary: it is asked at once whether there is another one.
    func doubts()
}

/// A connection whose server a directory names.
package protocol RedisDirectoryFollower: AnyObject {
    /// Whether it is up, or not wanted.
    var isSettled: Bool { get }

    /// Another server is in charge: the connection goes there at once, and takes none of what it waited for with it.
    func leave(because reason: RedisError)

    /// What `server()` answers has changed: whoever waits for it asks again.
    func dialAgain()
}

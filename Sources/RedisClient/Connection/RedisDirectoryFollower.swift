/// A connection whose server a directory names.
protocol RedisDirectoryFollower: AnyObject {
    /// Whether the connection is up or not wanted.
    var isSettled: Bool { get }

    /// Reconnects at once, because another server is in charge. Pending commands fail.
    func leave(because reason: RedisError)

    /// Handles a change of the answer of `server()`. Links that wait for an address ask again.
    func dialAgain()
}

/// A connection whose server a directory names.
protocol RedisDirectoryFollower: AnyObject {
    /// Whether it is up, or not wanted.
    var isSettled: Bool { get }

    /// Another server is in charge: the connection goes there at once, and takes none of what it waited for with it.
    func leave(because reason: RedisError)

    /// The answer of `server()` has changed. Links that wait for one ask again.
    func dialAgain()
}

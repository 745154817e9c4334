/// A connection that keeps what it writes until the end of the tick.
protocol FlushedConnection: AnyObject {
    /// Hands what is written to the socket, in a slice of the connection. Called once per tick and connection.
    func flush()
}

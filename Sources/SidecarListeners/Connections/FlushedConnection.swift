/// A connection that holds its writes until the end of the tick.
protocol FlushedConnection: AnyObject {
    /// Passes the pending writes to the socket, in a slice of the connection. Called once per tick and connection.
    func flush()
}

/// A connection that holds its writes until the end of the tick.
protocol FlushedConnection: AnyObject {
    /// Passes the pending writes to the socket. `FlushQueue` calls this once for each `plan`.
    func flush()
}

/// The owner of connections: takes back a connection after each request, and learns when it can no longer be used.
/// Confined to the connection's event loop.
package protocol HTTPClientConnectionOwner: AnyObject {
    /// Takes back a connection that has completed its request and can carry another.
    func takeBack(_ connection: HTTPClientConnection)
    /// Handles the end of a connection's use: it accepts no further request.
    func connectionRetired(_ connection: HTTPClientConnection)
}

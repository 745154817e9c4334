/// The owner of connections. Takes back connections that are free, and is notified when one can no longer be used.
/// Confined to the connection's event loop.
package protocol HTTPClientConnectionOwner: AnyObject {
    /// Takes back a connection that has completed its request and can carry another.
    func free(_ connection: HTTPClientConnection)
    /// Called when a connection carries no further request.
    func closed(_ connection: HTTPClientConnection)
}

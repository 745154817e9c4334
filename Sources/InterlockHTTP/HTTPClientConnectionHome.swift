/// The owner of connections: takes free ones back, and is notified when one leaves. Confined to the connection's event
/// loop.
package protocol HTTPClientConnectionHome: AnyObject {
    /// The connection has completed its request and can carry another.
    func free(_ connection: HTTPClientConnection)
    /// The connection carries no further request.
    func closed(_ connection: HTTPClientConnection)
}

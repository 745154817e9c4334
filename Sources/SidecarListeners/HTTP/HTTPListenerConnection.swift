/// A client's connection to the HTTP listener, which may close it. Confined to the coordinator's event loop.
protocol HTTPListenerConnection: AnyObject {
    /// Accepts no further request, because the sidecar shuts down.
    func shutDown()
    /// Ends the connection or its requests if the key of their caller was removed.
    func closeIfKeyRevoked(_ isRemoved: (AccessControl.Caller) -> Bool)
    /// Closes the connection of an unidentified client to free its slot.
    func evict()
}

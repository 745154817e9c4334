/// Whoever a link to a sidecar belongs to. Called on the link's event loop.
protocol SidecarLinkOwner: AnyObject {
    func linkIsUp()
    func received(_ reply: SidecarReply)
    /// Once, at the end, unless the owner closed the link itself.
    func linkIsLost(_ error: any Error)
}

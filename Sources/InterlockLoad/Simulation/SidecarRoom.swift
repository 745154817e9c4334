internal import InterlockCore

/// One room of a simulated sidecar: its locks, its limits, its breakers. What happens to the whole sidecar is told to each room,
/// in the order in which `Coordinator` does.
protocol SidecarRoom: AnyObject {
    /// The connection to Redis is up: the first time, and after each loss.
    func redisIsUp()
    /// Redis has been away for as long as an answer may take: whoever waits is told.
    func redisIsAway()
    /// Messages may have been lost: whoever waits looks again, at once.
    func lookAgain()
    /// What others may have changed is read again; after an outage not by all sidecars at one moment.
    func reread()
    /// A message on the sidecar's own wake channel or on the event channel.
    func received(_ message: ModelRedis.Message)
    /// A key that this sidecar watches was changed; `nil`: any may have been.
    func keyChanged(_ key: String?)
}

extension SidecarRoom {
    func redisIsUp() {}
    func redisIsAway() {}
    func lookAgain() {}
    func reread() {}
    func received(_ message: ModelRedis.Message) {}
    func keyChanged(_ key: String?) {}
}

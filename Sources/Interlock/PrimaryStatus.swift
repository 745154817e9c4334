internal import InterlockCore
internal import RedisClient

/// The primary that the Sentinels name.
package struct PrimaryStatus: Hashable, Sendable {
    /// The name of the primary in Sentinel's configuration.
    package var name: String
    /// `host:port`; `nil` if too few Sentinels have answered.
    package var address: String?
    /// The epoch of the failover that made it the primary; increases with each failover.
    package var epoch: Int64?
    package var sentinels: Int
    package var sentinelsAnswering: Int
    /// The number of times the primary has changed since this sidecar started.
    package var switches: Int
    /// The duration of the last switch, from the announcement until every connection was established; `nil` if there
    /// was none.
    package var lastSwitchDuration: Duration?

    init(_ directory: PrimaryDirectory) {
        name = directory.name
        address = directory.primary.map { "\($0.address)" }
        epoch = directory.primary?.epoch
        sentinels = directory.sentinelCount
        sentinelsAnswering = directory.answeringCount
        switches = directory.switches
        lastSwitchDuration = directory.lastSwitchDuration
    }
}

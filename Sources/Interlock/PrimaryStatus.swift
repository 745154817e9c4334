internal import InterlockCore
internal import RedisClient

/// Which server Sentinels name.
package struct PrimaryStatus: Hashable, Sendable {
    /// What they call it.
    package var name: String
    /// `host:port`; `nil`: too few of them have answered.
    package var address: String?
    /// Of the failover that made it the primary; higher each time.
    package var epoch: Int64?
    package var sentinels: Int
    /// How many Sentinels are heard.
    package var sentinelsAnswering: Int
    /// How often it was another one since this sidecar started.
    package var switches: Int
    /// How long the last switch took, from the news to the moment at which every connection was there; `nil`: there was none.
    package var lastSwitch: Duration?

    init(_ directory: PrimaryDirectory) {
        name = directory.name
        address = directory.primary.map { "\($0.address)" }
        epoch = directory.primary?.epoch
        sentinels = directory.sentinelCount
        sentinelsAnswering = directory.answering
        switches = directory.switches
        lastSwitch = directory.lastSwitch
    }
}

internal import InterlockCore
internal import RedisClient

/// The primary that the Sentinels report.
package struct PrimaryStatus: Hashable, Sendable {
    /// The name of the primary in the Sentinels' configuration.
    package var name: String
    /// `host:port`; `nil` if too few Sentinels have answered.
    package var address: String?
    /// The epoch of the failover that made the server the primary. Increases with each failover.
    package var epoch: Int64?
    package var sentinelCount: Int
    package var answeringSentinelCount: Int
    /// The number of times that the primary has changed since this sidecar started.
    package var switchCount: Int
    /// The duration of the last switch, from the announcement until every connection was established; `nil` before the
    /// first switch.
    package var lastSwitchDuration: Duration?

    init(_ directory: PrimaryDirectory) {
        name = directory.name
        address = directory.primary.map { "\($0.address)" }
        epoch = directory.primary?.epoch
        sentinelCount = directory.sentinelCount
        answeringSentinelCount = directory.answeringCount
        switchCount = directory.switchCount
        lastSwitchDuration = directory.lastSwitchDuration
    }
}

internal import InterlockCore
internal import RedisClient

/// The state of a cluster as this sidecar knows it.
package struct ClusterStatus: Hashable, Sendable {
    /// A server that serves hash slots.
    package struct Primary: Hashable, Sendable {
        /// `host:port`.
        package var address: String
        package var slots: Int
        package var isConnected: Bool
    }

    /// The primaries, in a stable order; empty until a server has answered.
    package var primaries: [Primary]
    /// The epoch of the last known change; `nil` until a server has answered.
    package var epoch: Int64?
    /// The number of the 16,384 hash slots that some server serves.
    package var slotsCovered: Int
    /// The number of times a primary has handed its hash slots to others since this sidecar started.
    package var switches: Int
    /// The duration of the last switch, from the announcement until every connection was established; `nil` if there
    /// was none.
    package var lastSwitchDuration: Duration?

    init(_ directory: ClusterDirectory, connections: [RedisPipeline]) {
        let map = directory.view
        primaries = zip(map.primaries, map.slotCounts).map { address, slots in
            Primary(
                address: "\(address)", slots: slots,
                isConnected: connections.first { $0.address == address }?.isUp ?? false)
        }
        epoch = directory.view.isKnown ? directory.view.epoch : nil
        slotsCovered = map.coveredSlotCount
        switches = directory.switches
        lastSwitchDuration = directory.lastSwitchDuration
    }
}

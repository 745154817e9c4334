internal import InterlockCore
internal import RedisClient

/// The state of a cluster that this sidecar knows.
package struct ClusterStatus: Hashable, Sendable {
    /// A server that serves hash slots.
    package struct Primary: Hashable, Sendable {
        /// `host:port`.
        package var address: String
        package var slotCount: Int
        package var isConnected: Bool
    }

    /// The primaries, in a stable order; empty until a server has answered.
    package var primaries: [Primary]
    /// The epoch of the last known change; `nil` until a server has answered.
    package var epoch: Int64?
    /// The number of hash slots, of 16,384, that some server serves.
    package var coveredSlotCount: Int
    /// The number of times that a primary has handed its hash slots to others since this sidecar started.
    package var switchCount: Int
    /// The duration of the last switch, from the announcement until every connection was established; `nil` before the
    /// first switch.
    package var lastSwitchDuration: Duration?

    init(_ directory: ClusterDirectory, connections: [RedisPipeline]) {
        let view = directory.view
        primaries = zip(view.primaries, view.slotCounts).map { address, slotCount in
            Primary(
                address: "\(address)", slotCount: slotCount,
                isConnected: connections.first { $0.address == address }?.isUp ?? false)
        }
        epoch = view.isKnown ? view.epoch : nil
        coveredSlotCount = view.coveredSlotCount
        switchCount = directory.switchCount
        lastSwitchDuration = directory.lastSwitchDuration
    }
}

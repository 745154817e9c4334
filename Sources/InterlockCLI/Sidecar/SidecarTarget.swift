import Hiredis

/// A sidecar to talk to.
struct SidecarTarget: Sendable {
    /// For messages.
    var address: SidecarAddress
    var configuration: RedisConfiguration
}

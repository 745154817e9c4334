import Hiredis

/// A command of a sidecar's RESP door.
protocol SidecarCommand: RedisCommand, Sendable where Reply: Sendable {
    /// How long the sidecar was asked to wait before it answers.
    var wait: Duration { get }
    /// What was asked, for messages: `lock acquire orders`.
    var purpose: String { get }
}

extension SidecarCommand {
    var wait: Duration { .zero }
}

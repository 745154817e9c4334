/// The flow of bytes in one direction between a sidecar and Redis. While the connection lasts, no flow loses,
/// duplicates or changes a byte.
package enum FaultFlow: Hashable, Sendable {
    /// Bytes pass immediately.
    case free
    /// Bytes are delayed by `fixed` plus up to `jitter`, in order.
    case delayed(fixed: Duration, jitter: Duration)
    /// Up to `bytes` bytes pass per interval.
    case throttled(bytes: Int, every: Duration)
    /// No byte passes, and the proxy reads nothing from the source.
    case blocked
}

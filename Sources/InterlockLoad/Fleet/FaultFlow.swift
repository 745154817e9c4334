/// The flow of bytes in one direction between a sidecar and Redis. No byte is lost, duplicated or changed while the
/// connection lasts.
package enum FaultFlow: Hashable, Sendable {
    /// Bytes pass immediately.
    case free
    /// Bytes are delayed by `fixed` plus up to `jitter`, in order.
    case delayed(fixed: Duration, jitter: Duration)
    /// Up to `bytes` bytes pass per interval.
    case throttled(bytes: Int, every: Duration)
    /// No byte passes, and none is read from the source.
    case blocked
}

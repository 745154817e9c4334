/// How bytes pass in one direction between a sidecar and Redis. None is lost, doubled or changed as long as the connection
/// stays.
package enum FaultFlow: Hashable, Sendable {
    /// As they come.
    case free
    /// `fixed` late, and up to `jitter` more; in order.
    case delayed(fixed: Duration, jitter: Duration)
    /// This many at a time, with a pause in between.
    case trickling(bytes: Int, every: Duration)
    /// Not at all: they are not even read.
    case held
}

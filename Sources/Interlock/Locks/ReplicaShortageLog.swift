internal import InterlockCore

/// Decides which changes between enough and too few replicas are logged.
///
/// On a cluster, one server may have enough replicas while another has too few. So enough replicas are logged only once
/// no lease has had too few for some time.
struct ReplicaShortageLog {
    static let quietMilliseconds: Int64 = 5_000
    /// The last time too few replicas confirmed a lease; `nil` once the log says that enough do.
    private var lastShortage: Instant?

    /// Returns the event to log, or `nil`.
    mutating func event(isEnough: Bool, now: Instant) -> CoordinatorLogEvent? {
        guard isEnough else {
            defer { lastShortage = now }
            return lastShortage == nil ? .lockUnreplicated : nil
        }
        guard let shortage = lastShortage, now >= shortage.advanced(byMilliseconds: Self.quietMilliseconds) else { return nil }
        lastShortage = nil
        return .lockReplicated
    }
}

/// Resources that locks guard: each takes a write only if its fence is not below any that it has taken before.
public struct GuardedResource: Hashable, Sendable {
    private var highest: [Int: Int64] = [:]

    public init() {}

    /// A write under a lock with the writer's fence; whether it was taken.
    public mutating func write(lock: Int, fence: Int64) -> Bool {
        guard fence >= highest[lock] ?? .min else { return false }
        highest[lock] = fence
        return true
    }
}

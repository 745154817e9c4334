/// How a batch was judged, by the script or by this sidecar's own counters.
public struct LimitVerdict: Equatable, Sendable {
    public struct Counter: Equatable, Sendable {
        /// What was taken before the batch.
        public var count: Int64
        /// What can be taken in all: the definition's capacity, or this sidecar's share of it.
        public var capacity: Int64
        /// Milliseconds until all of it can be taken again, seen after the batch; for a fixed window that the batch began,
        /// its length.
        public var resetAfter: Int64
        /// How many granted calls a shadow limit had no room for.
        public var excess: Int64

        public init(count: Int64, capacity: Int64, resetAfter: Int64, excess: Int64 = 0) {
            self.count = count
            self.capacity = capacity
            self.resetAfter = resetAfter
            self.excess = excess
        }
    }

    public struct Run: Equatable, Sendable {
        /// How many of the run's requests were granted: its first ones.
        public var granted: Int
        /// Which counter refused the rest; meaningless when nothing was refused.
        public var binding: Int
        /// In how many microseconds one of the rest could be granted.
        public var retryAfterMicroseconds: Int64

        public init(granted: Int, binding: Int, retryAfterMicroseconds: Int64) {
            self.granted = granted
            self.binding = binding
            self.retryAfterMicroseconds = retryAfterMicroseconds
        }
    }

    /// Redis' time when it judged, in microseconds of the Unix epoch; 0 when Redis did not.
    public var timeMicroseconds: Int64
    public var counters: [Counter]
    public var runs: [Run]

    public init(timeMicroseconds: Int64, counters: [Counter], runs: [Run]) {
        self.timeMicroseconds = timeMicroseconds
        self.counters = counters
        self.runs = runs
    }

    /// Everything is granted and nothing was counted.
    public static func allGranted(_ batch: LimitBatch) -> LimitVerdict {
        LimitVerdict(
            timeMicroseconds: 0,
            counters: batch.counters.map { counter in
                let definition = batch.definitions[counter.definition]
                return Counter(count: 0, capacity: definition.capacity, resetAfter: definition.windowMilliseconds)
            },
            runs: batch.runs.map { Run(granted: $0.count, binding: 0, retryAfterMicroseconds: 0) })
    }
}

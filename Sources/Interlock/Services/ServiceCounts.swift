/// The number of decisions on one service, or on all, since they were configured.
package struct ServiceCounts: Hashable, Sendable {
    package var callsTaken: Int64 = 0
    package var callsLimited: Int64 = 0
    package var permitsGranted: Int64 = 0
    package var permitsRefused: Int64 = 0
    package var outcomesGood: Int64 = 0
    package var outcomesFailed: Int64 = 0

    package init() {}

    init(
        callsTaken: Int64, callsLimited: Int64, permitsGranted: Int64, permitsRefused: Int64, outcomesGood: Int64,
        outcomesFailed: Int64
    ) {
        self.callsTaken = callsTaken
        self.callsLimited = callsLimited
        self.permitsGranted = permitsGranted
        self.permitsRefused = permitsRefused
        self.outcomesGood = outcomesGood
        self.outcomesFailed = outcomesFailed
    }

    mutating func add(_ other: ServiceCounts) {
        callsTaken += other.callsTaken
        callsLimited += other.callsLimited
        permitsGranted += other.permitsGranted
        permitsRefused += other.permitsRefused
        outcomesGood += other.outcomesGood
        outcomesFailed += other.outcomesFailed
    }
}

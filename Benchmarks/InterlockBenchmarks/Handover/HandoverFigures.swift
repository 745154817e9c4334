/// What `handover` found. Times are in milliseconds.
struct HandoverFigures: Figures {
    /// Grants within the measured time.
    var cycles: Int
    /// Grants from the first to the last, with those before and after the measured time.
    var allCycles: Int
    /// Of the cycles, those that went to another client than the one before.
    var toAnother: Int
    var seconds: Double
    var meanCycle: Double
    /// From a client's release to the next client's grant.
    var median: Double
    var percentile99: Double
    var maximum: Double
    /// The longest that any client waited within the measured time; it may wait still.
    var longestWait: Double
    /// Answers that were none of those hoped for, connections lost, and clients still waiting when all others had gone.
    var errors: Int
    var firstError: String?
    /// Grants while another client held the lock.
    var violations: Int
    /// Every grant's fence was higher than that of the grant before.
    var fencesInOrder: Bool

    enum CodingKeys: String, CodingKey {
        case cycles, seconds, errors, violations
        case allCycles = "all_cycles"
        case toAnother = "to_another"
        case meanCycle = "mean_cycle_ms"
        case median = "p50_ms"
        case percentile99 = "p99_ms"
        case maximum = "max_ms"
        case longestWait = "longest_wait_ms"
        case firstError = "first_error"
        case fencesInOrder = "fences_in_order"
    }
}

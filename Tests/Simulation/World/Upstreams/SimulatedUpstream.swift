import InterlockCore
import InterlockJudge

/// The health of a service that clients call. Most calls succeed, but for a while many may fail or be slow.
struct SimulatedUpstream {
    /// The outcome of one call.
    struct Outcome {
        var isOK: Bool
        /// The duration of the call, in milliseconds.
        var durationMilliseconds: Int64
        /// The pause that the service asks for, in milliseconds.
        var retryAfterMilliseconds: Int64?
    }

    /// The probability that a call fails.
    var failureProbability = 0.01
    var isSlow = false

    /// Draws the outcome of one call.
    func call(random: inout SeededRandom) -> Outcome {
        let isOK = !random.happens(failureProbability)
        let durationMilliseconds =
            isSlow ? Int64.random(in: 150...400, using: &random) : Int64.random(in: 1...20, using: &random)
        let asksForPause = !isOK && random.happens(0.05)
        return Outcome(
            isOK: isOK, durationMilliseconds: durationMilliseconds,
            retryAfterMilliseconds: asksForPause ? Int64.random(in: 200...2000, using: &random) : nil)
    }
}

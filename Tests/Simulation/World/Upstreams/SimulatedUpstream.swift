import InterlockCore
import InterlockJudge

/// The health of a service that clients call. Most calls succeed; for a while many may fail or be slow.
struct SimulatedUpstream {
    struct Outcome {
        var isOK: Bool
        var milliseconds: Int64
        var retryAfter: Int64?
    }

    /// The probability that a call fails.
    var failureProbability = 0.01
    var isSlow = false

    func call(random: inout SeededRandom) -> Outcome {
        let isOK = !random.happens(failureProbability)
        let milliseconds = isSlow ? Int64.random(in: 150...400, using: &random) : Int64.random(in: 1...20, using: &random)
        let asksForPause = !isOK && random.happens(0.05)
        return Outcome(
            isOK: isOK, milliseconds: milliseconds,
            retryAfter: asksForPause ? Int64.random(in: 200...2000, using: &random) : nil)
    }
}

import InterlockCore

/// The plan for an upstream's response to one request, drawn when the request's head arrives.
struct UpstreamBehavior {
    enum Framing: CaseIterable {
        case length, chunked, untilClose
    }

    /// A deviation from a correct response.
    enum Mishap {
        /// Closes as soon as it has read the request's head.
        case closesUnread
        /// Closes once it has read the complete request.
        case closesUnanswered
        case closesInHead
        case closesInBody
        /// Closes right after the response, without `Connection: close`.
        case closesAfter
        /// Sends fewer bytes than it declared.
        case sendsTooLittle(closes: Bool)
        /// Sends a second response, with another number, in the same write as the end of the first.
        case answersTwice
        case sendsGarbage
        /// Responds once it has read the request's head, before the body arrives.
        case answersEarly(closes: Bool)
        /// Never responds.
        case silent
        /// Resets the HTTP/2 stream with this error before the response.
        case resets(StreamError)
        /// Resets the HTTP/2 stream with this error within the response.
        case resetsInBody(StreamError)
        /// Sends `GOAWAY` over HTTP/2, and either responds to this request or leaves it unprocessed.
        case goesAway(leavesUnprocessed: Bool)
    }

    enum StreamError: CaseIterable {
        case refused, internalError, cancel
    }

    /// The time after which an upstream closes connections and streams that it left open, in milliseconds.
    static let closeDelayMilliseconds: Int64 = 4000

    var status: Int
    /// The value of `Retry-After`, in seconds.
    var retryAfterSeconds: Int64?
    var framing: Framing
    /// The approximate size of the response body, in bytes.
    var size: Int
    /// The number of writes that carry the body.
    var parts: Int
    /// The delay before the head, in milliseconds.
    var delayMilliseconds: Int64
    /// The pause between writes, in milliseconds.
    var pauseMilliseconds: Int64
    /// The statuses of informational responses before the final one.
    var informational: [Int]
    var hasTrailers: Bool
    var mishap: Mishap?

    /// Draws a plan for an outcome that the upstream's health has determined.
    init(_ outcome: SimulatedUpstream.Outcome, mishapProbability: Double, speaksHTTP2: Bool, random: inout SeededRandom) {
        let failures = [500, 502, 503, 503, 504, 429]
        let successes = [200, 200, 200, 201, 206, 302, 404, 204]
        let statuses = outcome.isOK ? successes : failures
        status = statuses[Int.random(in: statuses.indices, using: &random)]
        retryAfterSeconds = nil
        if let retryAfterMilliseconds = outcome.retryAfterMilliseconds {
            status = random.happens(0.8) ? 503 : 429
            retryAfterSeconds = (retryAfterMilliseconds + 999) / 1000
        }
        framing = random.happens(0.1) ? .untilClose : random.happens(0.5) ? .length : .chunked
        let isLarge = random.happens(0.05)
        size = isLarge ? Int.random(in: 20_000...200_000, using: &random) : Int.random(in: 1...2000, using: &random)
        parts = random.happens(0.5) ? 1 : Int.random(in: 2...(isLarge ? 12 : 4), using: &random)
        let isSlowAtHead = random.happens(0.6)
        delayMilliseconds = isSlowAtHead ? outcome.durationMilliseconds : 0
        pauseMilliseconds =
            isSlowAtHead ? Int64.random(in: 0...2, using: &random) : outcome.durationMilliseconds / Int64(parts)
        informational = []
        if random.happens(0.06) {
            let count = random.happens(0.2) ? Int.random(in: 9...40, using: &random) : Int.random(in: 1...3, using: &random)
            informational = (0..<count).map { _ in !speaksHTTP2 && random.happens(0.3) ? 100 : 103 }
        }
        hasTrailers = random.happens(0.1)
        mishap = random.happens(mishapProbability) ? Self.mishap(speaksHTTP2: speaksHTTP2, random: &random) : nil
    }

    private static func mishap(speaksHTTP2: Bool, random: inout SeededRandom) -> Mishap {
        let flag = random.happens(0.5)
        switch Int.random(in: 0..<(speaksHTTP2 ? 9 : 10), using: &random) {
        case 0: return .closesUnread
        case 1: return .closesUnanswered
        case 2: return .closesInBody
        case 3: return .silent
        case 4: return .answersEarly(closes: flag)
        case 5: return .sendsTooLittle(closes: flag)
        case 6 where speaksHTTP2: return .resets(StreamError.allCases[Int.random(in: 0..<3, using: &random)])
        case 7 where speaksHTTP2: return .resetsInBody(StreamError.allCases[Int.random(in: 0..<3, using: &random)])
        case 8 where speaksHTTP2: return .goesAway(leavesUnprocessed: flag)
        case 6: return .closesInHead
        case 7: return .closesAfter
        case 8: return .answersTwice
        default: return .sendsGarbage
        }
    }

    /// Returns whether a response to this method has a body.
    func hasBody(for method: String) -> Bool { method != "HEAD" && status != 204 && status != 304 }
}

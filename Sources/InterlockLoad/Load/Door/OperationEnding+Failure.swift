internal import InterlockJudge
internal import Hiredis

extension OperationEnding {
    /// The code of what never left, because its sidecar was not connected.
    static let notConnected = "not-connected"
    /// The answer did not come in time.
    static let timedOut = "timed-out"
    /// The connection was lost before the answer.
    static let answerLost = "answer-lost"

    init(_ error: RedisError) {
        self =
            switch error.code {
            case .notConnected, .connectionFailed, .overloaded: .failed(code: Self.notConnected)
            case .timedOut: .unknown(reason: Self.timedOut)
            case .answerLost: .unknown(reason: Self.answerLost)
            // There was an answer, and nobody knows what it says.
            case .protocolViolation, .unexpectedReply: .unknown(reason: "unreadable")
            case .server(.invalid): .failed(code: Self.invalid(error.message))
            case .server(let condition): .failed(code: condition.rawValue)
            }
    }

    /// What was asked for was a mistake, of the harness or of the sidecar: its report says which. Without the names in it, of which
    /// there are many.
    private static func invalid(_ message: String) -> String {
        let sentence = message.split(separator: " ").drop { $0 == "INVALID" }
        let words = sentence.prefix { $0 != "of" && $0.last != ":" && $0.last != ";" }
        return "INVALID: \(words.joined(separator: " "))"
    }

    /// A sidecar has answered: how long that took is a latency.
    var isAnswer: Bool {
        switch self {
        case .done, .refused: true
        case .failed(let code): code != Self.notConnected
        case .unknown: false
        }
    }
}

extension ServerCondition {
    /// The request is a mistake.
    fileprivate static let invalid = ServerCondition(rawValue: "INVALID")
}

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
            case .server(let condition): .failed(code: condition.rawValue)
            }
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

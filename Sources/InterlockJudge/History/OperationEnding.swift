/// How an operation ended for its client.
package enum OperationEnding: Hashable, Sendable, Codable {
    /// The sidecar did what was asked.
    case done(Success)
    /// The sidecar refused: the lock is held, the lease is lost, the limit is used up, the breaker is open.
    case refused(Refusal)
    /// An error which says that nothing was done, such as "unavailable" or "invalid".
    case failed(code: String)
    /// No answer. It may have been carried out, or may yet be. Never counted as failed.
    case unknown(reason: String)

    /// The reason when the client itself went away. It says nothing about the sidecar.
    package static let vanished = "vanished"
    /// Like `vanished`, for a client that will not ask again: the sidecar gives back what it is granted for it. A release was sent
    /// before the client closed, and is carried out.
    package static let abandoned = "abandoned"

    /// Whether it may have been carried out, or may yet be. That includes errors, because an error may come from a timeout.
    package var isDoubtful: Bool {
        switch self {
        case .unknown, .failed: true
        case .done, .refused: false
        }
    }
}

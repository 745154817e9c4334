/// The end of an operation from its client's point of view.
package enum OperationEnding: Hashable, Sendable, Codable {
    /// The sidecar did as requested.
    case done(OperationSuccess)
    /// The sidecar refused: the lock is held, the lease is lost, the limit is used up, the breaker is open.
    case refused(Refusal)
    /// An error answer, such as "unavailable" or "invalid". Usually nothing was done; see `isDoubtful`.
    case failed(code: String)
    /// No answer. The operation may have been executed, or may still be. Never counted as failed.
    case unknown(reason: String)

    /// The reason if the client itself disconnected, which says nothing about the sidecar.
    package static let vanished = "vanished"
    /// The reason if the client disconnected and will not retry: the sidecar releases what it is granted for the
    /// client. A release that the client had sent takes effect.
    package static let abandoned = "abandoned"

    /// Whether the operation may have been executed, or may still be. Includes errors, because an error may come from a
    /// timeout.
    package var isDoubtful: Bool {
        switch self {
        case .unknown, .failed: true
        case .done, .refused: false
        }
    }
}

/// The end of an operation from its client's point of view.
package enum OperationEnding: Hashable, Sendable, Codable {
    /// The sidecar did as requested.
    case done(OperationSuccess)
    /// The sidecar refused: the lock is held, the lease is lost, the limit is used up, the breaker is open.
    case refused(Refusal)
    /// The sidecar answered with an error, such as "unavailable" or "invalid". It usually did nothing; see
    /// `isDoubtful`.
    case failed(code: String)
    /// No answer arrived. The sidecar may have executed the operation, or may still execute it. Checkers never count
    /// this as a failure to execute.
    case unknown(reason: String)

    /// The reason if the client itself disconnected. It says nothing about the sidecar.
    package static let vanished = "vanished"
    /// The reason if the client disconnected and will not retry. The sidecar releases a lease that Redis grants it for
    /// this client, and a release that the client has already sent takes effect.
    package static let abandoned = "abandoned"

    /// Whether the sidecar may have executed the operation, or may still execute it. Errors count, because an error may
    /// come from a timeout.
    package var isDoubtful: Bool {
        switch self {
        case .unknown, .failed: true
        case .done, .refused: false
        }
    }
}

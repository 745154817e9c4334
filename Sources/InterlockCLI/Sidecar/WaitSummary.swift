import InterlockClient
import InterlockCore

/// A description of a wait that ended without success.
struct WaitSummary {
    private let requested: Duration
    /// The maximum wait that the sidecar allows; `nil` if it did not shorten this one.
    private let limit: Duration?

    /// Asks the sidecar for its maximum wait, to find out whether the sidecar shortened this one. Returns `nil` if the
    /// command requested no wait.
    init?(_ requested: Duration, at client: SidecarClient) async {
        guard requested > .zero else { return nil }
        self.requested = requested
        // The command has failed anyway. An error here only omits the explanation.
        let maximum = (try? await client.status())?.maximumWait
        limit = maximum.flatMap { $0 < requested ? $0 : nil }
    }

    /// The length of the wait: `2s (you requested 20s, but the sidecar's locks.max_wait is 2s)`.
    var description: String {
        let length = DurationText.shortest(limit ?? requested)
        guard limit != nil else { return length }
        return "\(length) (you requested \(DurationText.shortest(requested)), but the sidecar's locks.max_wait is \(length))"
    }

    /// Whether the sidecar allows a longer wait.
    var mayBeLonger: Bool { limit == nil }
}

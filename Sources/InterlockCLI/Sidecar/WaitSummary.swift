import InterlockClient
import InterlockCore

/// A description of a wait that ended without success.
struct WaitSummary {
    private let asked: Duration
    /// The longest wait that the sidecar allows; `nil` if it did not cut this one.
    private let limit: Duration?

    /// Asks the sidecar whether it cut the wait. Returns `nil` if there was no wait.
    init?(_ asked: Duration, at client: SidecarClient) async {
        guard asked > .zero else { return nil }
        self.asked = asked
        // The command fails in any case, so an error here only costs the explanation.
        let maximum = (try? await client.status())?.maximumWait
        limit = maximum.flatMap { $0 < asked ? $0 : nil }
    }

    /// The length of the wait: `2s (you requested 20s, but the sidecar's locks.max_wait is 2s)`.
    var description: String {
        let length = DurationText.shortest(limit ?? asked)
        guard limit != nil else { return length }
        return "\(length) (you requested \(DurationText.shortest(asked)), but the sidecar's locks.max_wait is \(length))"
    }

    /// Whether a longer wait is possible.
    var mayBeLonger: Bool { limit == nil }
}

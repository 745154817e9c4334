import InterlockClient
import InterlockCore

/// A wait that is over without success, in words.
struct EndedWait {
    private let asked: Duration
    /// The longest wait that the sidecar allows, if it cut this one; `nil` otherwise.
    private let limit: Duration?

    /// Asks the sidecar whether it cut the wait. `nil`: there was none.
    init?(_ asked: Duration, at client: SidecarClient) async {
        guard asked > .zero else { return nil }
        self.asked = asked
        // The answer is in any case that there was no success: this only explains it.
        let maximum = (try? await client.status())?.maximumWait
        limit = maximum.flatMap { $0 < asked ? $0 : nil }
    }

    /// How long it was: `2s (asked for 20s; the sidecar allows locks.max_wait = 2s)`.
    var description: String {
        let length = DurationText.shortest(limit ?? asked)
        guard limit != nil else { return length }
        return "\(length) (asked for \(DurationText.shortest(asked)); the sidecar allows locks.max_wait = \(length))"
    }

    /// Whether a longer wait can be asked for.
    var mayBeLonger: Bool { limit == nil }
}

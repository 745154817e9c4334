import FoundationEssentials
import InterlockCore
import SidecarListeners

/// One frame: what `LIVE.VIEW` answered, and when.
struct TopFrame: Sendable {
    let object: JSONValue
    private let readAt = ContinuousClock.now

    /// - Throws: when it is no JSON object.
    init(_ text: String) throws {
        object = try JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))
    }

    /// The time of the sidecar's host, in milliseconds.
    var now: Int64 { (object["now_ms"].integer ?? 0).less(-(ContinuousClock.now - readAt).wholeMilliseconds) }
}

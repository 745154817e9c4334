import FoundationEssentials
import InterlockCore
import SidecarConsole
import SidecarListeners

/// An answer of `LIVE.VIEW`, with the time when it was read.
struct TopFrame: Sendable {
    let object: JSONValue
    private let readAt = ContinuousClock.now

    /// - Throws: `DecodingError` if the text is not a JSON object.
    init(_ text: String) throws {
        var parts = try JSONDecoder().decode([String: JSONValue].self, from: Data(text.utf8))
        parts["limits"] = parts["limits"].map { limits in
            limits.adding("rows", ViewModel.limitRows(read: limits["limits"], known: parts["service"]["limits"]))
        }
        // An older sidecar sends its parts without `words`.
        for (name, part) in parts { parts[name] = ViewModel.completed(name, part) }
        object = .object(parts)
    }

    /// The current time by the clock of the sidecar's host, as Unix time in milliseconds.
    var now: Int64 { (object["now_ms"].integer ?? 0) &+ (ContinuousClock.now - readAt).wholeMilliseconds }
}

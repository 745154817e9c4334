import FoundationEssentials
import InterlockCore
import SidecarConsole
import SidecarListeners

/// An answer to `LIVE.VIEW`, with the time at which it was decoded.
struct TopFrame: Sendable {
    let object: JSONValue
    private let decodedAt = ContinuousClock.now

    /// Decodes an answer.
    /// - Throws: `DecodingError` if the text is not a JSON object.
    init(_ json: String) throws {
        var parts = try JSONDecoder().decode([String: JSONValue].self, from: Data(json.utf8))
        parts["limits"] = parts["limits"].map { limits in
            limits.adding("rows", ViewModel.limitRows(read: limits["limits"], configured: parts["service"]["limits"]))
        }
        // An older sidecar omits `words` from its parts.
        for (name, part) in parts { parts[name] = ViewModel.completed(name, part) }
        object = .object(parts)
    }

    /// The current Unix time in milliseconds, by the clock of the sidecar's host.
    var nowMilliseconds: Int64 {
        (object["now_ms"].integer ?? 0) &+ (ContinuousClock.now - decodedAt).wholeMilliseconds
    }
}

/// What one probe found.
public enum ProbeFinding: Hashable, Sendable {
    case good
    /// The service is not as it should be.
    case bad(ProbeReason)
    /// The prober itself was at fault, or was stopped: this says nothing of the service.
    case unjudged(ProbeReason)

    /// Why it was not good; `nil`: it was.
    public var reason: ProbeReason? {
        switch self {
        case .good: nil
        case .bad(let reason), .unjudged(let reason): reason
        }
    }
}

/// Why a probe was not good, for people: short, and of visible characters, whatever the service sent.
public struct ProbeReason: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringInterpolation {
    /// The longest reason, in bytes of UTF-8.
    public static let longest = 200

    public let description: String

    /// Cuts `text`, and puts a space for everything that is not visible.
    public init(_ text: String) {
        let ellipsis = "…"
        var visible = ""
        var bytes = 0
        for character in text {
            let shown = character.unicodeScalars.allSatisfy(Self.isVisible) ? character : " "
            bytes += shown.utf8.count
            guard bytes <= Self.longest - ellipsis.utf8.count else {
                visible += ellipsis
                break
            }
            visible.append(shown)
        }
        description = visible
    }

    public init(stringLiteral text: String) {
        self.init(text)
    }

    private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }
}

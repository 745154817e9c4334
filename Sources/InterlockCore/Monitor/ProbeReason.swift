/// The human-readable reason for a probe's finding, short and printable, whatever the service sent.
package struct ProbeReason: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringInterpolation {
    /// The maximum length in bytes of UTF-8.
    package static let maximumBytes = 200

    package let description: String

    /// Cuts `text`, and replaces each invisible character with a space.
    package init(_ text: String) {
        let ellipsis = "…"
        var visible = ""
        var bytes = 0
        for character in text {
            let shown = character.unicodeScalars.allSatisfy(Self.isVisible) ? character : " "
            bytes += shown.utf8.count
            guard bytes <= Self.maximumBytes - ellipsis.utf8.count else {
                visible += ellipsis
                break
            }
            visible.append(shown)
        }
        description = visible
    }

    package init(stringLiteral text: String) {
        self.init(text)
    }

    private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }
}

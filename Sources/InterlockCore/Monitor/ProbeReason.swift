/// The human-readable reason for a probe's finding, short and printable, whatever the service sent.
package struct ProbeReason: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringInterpolation {
    /// The maximum length of `description` in bytes of UTF-8.
    package static let maximumBytes = 200

    package let description: String

    /// Creates a reason from `text`, cut to the maximum length, with a space for each invisible character.
    package init(_ text: String) {
        let ellipsis = "…"
        var visible = ""
        var byteCount = 0
        for character in text {
            let shown = character.unicodeScalars.allSatisfy(Self.isVisible) ? character : " "
            byteCount += shown.utf8.count
            guard byteCount <= Self.maximumBytes - ellipsis.utf8.count else {
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

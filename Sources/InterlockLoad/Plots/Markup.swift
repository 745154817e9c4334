/// HTML or SVG text. Trusts the literals in the source, and escapes interpolated values unless they are `Markup`.
struct Markup: Hashable, Sendable, ExpressibleByStringInterpolation {
    private(set) var text: String

    /// Creates empty markup.
    init() { text = "" }

    init(stringLiteral text: String) { self.text = text }

    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    static func + (left: Self, right: Self) -> Self {
        var joined = left
        joined += right
        return joined
    }

    static func += (left: inout Self, right: Self) { left.text += right.text }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) {
            text.reserveCapacity(literalCapacity + interpolationCount * 8)
        }

        mutating func appendLiteral(_ literal: String) { text += literal }

        /// Appends untrusted text, escaped.
        mutating func appendInterpolation(_ text: String) { self.text += Markup.escaped(text) }

        mutating func appendInterpolation(_ number: Int) { text += String(number) }

        /// Appends a coordinate, rounded to a tenth of a pixel. A coordinate that is not finite, or huge, becomes 0, so
        /// that the drawing stays valid.
        mutating func appendInterpolation(_ coordinate: Double) {
            guard coordinate.isFinite, abs(coordinate) < 1e6 else {
                text += "0"
                return
            }
            let tenths = Int((coordinate * 10).rounded())
            text += (tenths < 0 ? "-" : "") + "\(abs(tenths) / 10)" + (tenths % 10 == 0 ? "" : ".\(abs(tenths) % 10)")
        }

        mutating func appendInterpolation(_ markup: Markup) { text += markup.text }

        mutating func appendInterpolation(_ markups: some Sequence<Markup>) {
            for markup in markups { text += markup.text }
        }
    }

    /// Escapes text for elements and quoted attributes. Replaces characters that XML does not allow with U+FFFD.
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            case "\t", "\n", "\r": escaped.unicodeScalars.append(scalar)
            case "\u{0}"..<" ", "\u{7F}"..."\u{9F}", "\u{FFFE}"..."\u{FFFF}": escaped += "\u{FFFD}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}

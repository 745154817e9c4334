internal import Glibc

/// What somebody sent, as a message shows it: its beginning, without control characters.
///
/// Cut by Unicode scalars and not by characters, of which a single one may be made of thousands.
package struct Excerpt: CustomStringConvertible, Hashable, Sendable {
    /// How many scalars are shown when nothing else is said.
    package static let length = 64

    /// Ends in `…` when something is left out. At most four bytes for each scalar, and three more.
    package let description: String

    /// - Parameter length: in Unicode scalars.
    package init(_ text: some StringProtocol, length: Int = Self.length) {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(length) {
            shown.unicodeScalars.append(scalar.properties.generalCategory == .control ? "\u{FFFD}" : scalar)
        }
        let isCut = text.unicodeScalars.dropFirst(length).first != nil
        description = isCut ? shown + "…" : shown
    }
}

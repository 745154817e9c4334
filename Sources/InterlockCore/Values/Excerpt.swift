internal import Glibc

/// The beginning of received text, without control characters, for display in a message.
///
/// The excerpt counts Unicode scalars, not characters, because a single character may consist of thousands of scalars.
package struct Excerpt: CustomStringConvertible, Hashable, Sendable {
    /// The default length in Unicode scalars.
    package static let length = 64

    /// The excerpt, which ends in `…` if the text is cut. At most four bytes per scalar, and three for the ellipsis.
    package let description: String

    /// Creates an excerpt of `text`.
    /// - Parameter length: the maximum length in Unicode scalars.
    package init(_ text: some StringProtocol, length: Int = Self.length) {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(length) {
            shown.unicodeScalars.append(scalar.properties.generalCategory == .control ? "\u{FFFD}" : scalar)
        }
        let isCut = text.unicodeScalars.dropFirst(length).first != nil
        description = isCut ? shown + "…" : shown
    }
}

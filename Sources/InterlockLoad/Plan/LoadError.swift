/// Why a run could not begin, or could not be ended as it should.
package struct LoadError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was asked, what was wrong, what to do.
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}

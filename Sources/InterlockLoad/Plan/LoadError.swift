/// A failure to start or complete a run.
package struct LoadError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The message: the failed request, the cause, and the remedy.
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}

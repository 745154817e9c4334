/// The human-readable reason why a sidecar cannot run.
package struct SidecarError: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}

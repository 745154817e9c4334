/// Which Interlock this is.
package enum SidecarVersion {
    /// Semantic version of the sidecar, its messages and its scripts.
    package static let current = "0.3.0"
}

/// The version of Interlock.
package enum SidecarVersion {
    /// The semantic version of the sidecar, its messages and its scripts.
    package static let current = "0.3.0"
}

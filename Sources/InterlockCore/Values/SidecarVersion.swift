/// The version of this release.
package enum SidecarVersion {
    /// The semantic version that the programs, messages and scripts of a release share. The first heading of
    /// `CHANGELOG.md` must name it, too.
    package static let current = "0.3.0"
}

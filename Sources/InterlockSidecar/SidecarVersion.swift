/// Which Interlock this is.
public enum SidecarVersion {
    /// Semantic version of the sidecar, its messages and its scripts.
    public static let current = "0.2.0"
}

import Hiredis

/// A sidecar has an `INFO` of its own.
extension Info: SidecarCommand {
    var purpose: String { "status" }
}

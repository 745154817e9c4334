package import InterlockCore

/// The lock whose holder probes a service on behalf of the fleet.
package enum ProbeLock {
    private static let prefix = "interlock-monitor/"
    /// The maximum length, in bytes, of the name of a service that one sidecar probes for the fleet.
    package static let maximumServiceBytes = ResourceName.maximumBytes - prefix.utf8.count

    /// Returns `nil` if the service's name is too long.
    package static func name(ofService service: String) -> ResourceName? {
        try? ResourceName(prefix + service)
    }
}

package import InterlockCore

/// The lock whose holder probes a service on behalf of the fleet.
package enum ProbeLock {
    private static let prefix = "interlock-monitor/"
    /// The longest name of a service that one sidecar can probe for the fleet, in bytes.
    package static let longestService = ResourceName.longest - prefix.utf8.count

    /// Returns `nil` if the service's name is too long.
    package static func name(ofService service: String) -> ResourceName? {
        try? ResourceName(prefix + service)
    }
}

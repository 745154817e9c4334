/// A fleet of the harness could not be started, or not be repaired.
package struct FleetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was to be done and what was wrong.
    package var reason: String
    /// The end of what the process in question had said.
    package var log: String

    package init(_ reason: String, log: String = "") {
        self.reason = reason
        self.log = log
    }

    package var description: String { log.isEmpty ? reason : "\(reason); its log:\n\(log)" }
}

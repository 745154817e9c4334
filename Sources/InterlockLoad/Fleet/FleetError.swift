/// A failure to start or repair a fleet of the harness.
package struct FleetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A description of the failed action and its cause.
    package var reason: String
    /// The last lines of output of the affected process.
    package var log: String

    package init(_ reason: String, log: String = "") {
        self.reason = reason
        self.log = log
    }

    package var description: String { log.isEmpty ? reason : "\(reason); its log:\n\(log)" }
}

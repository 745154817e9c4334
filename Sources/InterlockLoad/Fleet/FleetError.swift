/// A fleet of the harness's own could not be started, or not be mended.
public struct FleetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was to be done and what was wrong.
    public var reason: String
    /// The end of what the process in question had said.
    public var log: String

    public init(_ reason: String, log: String = "") {
        self.reason = reason
        self.log = log
    }

    public var description: String { log.isEmpty ? reason : "\(reason); its log:\n\(log)" }
}

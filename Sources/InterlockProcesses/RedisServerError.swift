/// The error for a test's server that could not be started or used.
package struct RedisServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The operation and the problem.
    package var reason: String
    /// The server's log up to the error.
    package var log: String

    package init(reason: String, log: String) {
        self.reason = reason
        self.log = log
    }

    package var description: String { log.isEmpty ? reason : "\(reason); its log:\n\(log)" }
}

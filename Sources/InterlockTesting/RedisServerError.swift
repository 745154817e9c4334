/// A private server could not be started, or not be used as asked.
public struct RedisServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was asked and what was wrong.
    public var reason: String
    /// What the server had said until then.
    public var log: String

    public init(reason: String, log: String) {
        self.reason = reason
        self.log = log
    }

    public var description: String { log.isEmpty ? reason : "\(reason); its log:\n\(log)" }
}

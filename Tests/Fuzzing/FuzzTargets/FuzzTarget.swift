/// A reader of bytes that others send, and what it promises whatever they are.
public enum FuzzTarget: String, CaseIterable, Sendable {
    /// What clients send to the RESP door: the requests and their options.
    case resp
    /// What Redis answers, as it comes over the wire.
    case replies
    /// What comes over the fleet's event channel.
    case events
    /// The configuration's file, and the texts in it that have a grammar of their own.
    case configuration
    /// What clients send to the HTTP door: a target in the first line, and the body in the others.
    case http
    /// What the outage monitor judges: a JSON path in the first line, a regular expression in the second, and the body in the
    /// others.
    case probes

    /// Has the target read `input`. The same input always comes to the same.
    /// - Throws: `FuzzFinding` when a promise is broken. Some can only be broken by a crash.
    public func run(_ input: [UInt8]) throws(FuzzFinding) {
        switch self {
        case .resp: try RequestPromises.check(input)
        case .replies: try ReplyPromises.check(input)
        case .events: try EventPromises.check(input)
        case .configuration: try ConfigurationPromises.check(input)
        case .http: try HTTPPromises.check(input)
        case .probes: try ProbePromises.check(input)
        }
    }
}

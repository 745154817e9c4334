/// The outcome of a permitted call.
public enum Outcome: String, CaseIterable, Hashable, Sendable {
    /// The call succeeded.
    case ok
    /// The call failed.
    case error
    /// The call says nothing about the service, for example because its caller gave up.
    case ignore
}

/// What became of a call that a permit was given for.
public enum Outcome: String, CaseIterable, Hashable, Sendable {
    case ok
    case error
    /// Says nothing of the service: the call was given up by its caller, for instance.
    case ignore
}

/// The state of the connection that events arrive over.
public enum EventConnection: Hashable, Sendable {
    /// Every event arrives from now on, while the connection lasts. Read the state after this element.
    case following
    /// The connection was lost or could not be established. Events until the next `following` are missed.
    case interrupted(InterlockError)
}

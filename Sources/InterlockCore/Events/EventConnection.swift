/// The state of the connection that events arrive over.
public enum EventConnection: Hashable, Sendable {
    /// From now on every event arrives, while the connection lasts. Read the state now.
    case following
    /// The connection is lost, or could not be made. Events are missed until the next `following`.
    case interrupted(InterlockError)
}

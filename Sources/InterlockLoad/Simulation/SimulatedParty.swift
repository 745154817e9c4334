/// What takes part in a simulated run: some rooms of the sidecars, and the clients that use them.
public enum SimulatedParty: String, Hashable, Sendable, Codable, CaseIterable {
    case locks, limits, breakers
}

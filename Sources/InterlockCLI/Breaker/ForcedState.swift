import ArgumentParser

/// What an operator can have a breaker do.
enum ForcedState: String, CaseIterable, ExpressibleByArgument, Sendable {
    case open, closed, disabled
    /// What it would do by itself.
    case auto
}

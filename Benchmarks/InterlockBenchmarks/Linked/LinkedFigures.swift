/// What `linked` found at the end.
struct LinkedFigures: Figures {
    var leases: Int
    /// Those that were no longer held.
    var lost: Int
}

/// What `linked` says in between: all leases are there.
struct LinkedProgress: Figures {
    var held: Int
}

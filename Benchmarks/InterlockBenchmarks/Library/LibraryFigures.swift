/// What `library` found.
struct LibraryFigures: Figures {
    /// Acquired and released.
    var cycles: Int
    var seconds: Double
}

/// A promise that a reader broke.
public struct FuzzFinding: Error, CustomStringConvertible {
    /// What was promised, and what came instead.
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Throws when `promise` does not hold.
func expect(_ promise: Bool, _ finding: @autoclosure () -> String) throws(FuzzFinding) {
    guard promise else { throw FuzzFinding(finding()) }
}

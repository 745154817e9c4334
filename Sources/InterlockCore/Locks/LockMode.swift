/// How a lock is held.
public enum LockMode: Hashable, Sendable {
    /// By one holder alone.
    case exclusive
    /// By any number of readers, while no writer holds it exclusively.
    case shared
    /// By at most so many holders: a semaphore.
    case permits(Int)

    /// How many places a semaphore may have.
    public static let places = 1...1_000_000

    public var isSemaphore: Bool {
        if case .permits = self { true } else { false }
    }

    /// What the group's name begins with that stands in the lock while several hold it. Nobody else may be called so:
    /// `nil` for a lock that one holds alone.
    public var groupLabel: String? {
        switch self {
        case .exclusive: nil
        case .shared: Self.sharedLabel
        case .permits(let count): Self.permitsLabel + "\(count)"
        }
    }

    /// Whether `token` could be the name of a group or a ticket: such a token has no holder.
    public static func isReserved(token: String) -> Bool {
        isReserved(label: token.prefix { $0 != "/" }) || OwnerToken.isTicket(token)
    }

    /// Whether `label` could be taken for the name of a group or for a ticket.
    public static func isReserved(label: some StringProtocol) -> Bool {
        if label == sharedLabel || OwnerToken.isTicket(label) { return true }
        guard label.hasPrefix(permitsLabel) else { return false }
        return label.dropFirst(permitsLabel.count).utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    private static let sharedLabel = "shared"
    private static let permitsLabel = "permits-"
}

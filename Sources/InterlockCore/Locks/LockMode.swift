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

    /// As the doors say it.
    package var word: String {
        switch self {
        case .exclusive: "exclusive"
        case .shared: "shared"
        case .permits: "permits"
        }
    }

    /// A semaphore's places.
    package var permits: Int? {
        if case .permits(let count) = self { count } else { nil }
    }

    package var isSemaphore: Bool {
        if case .permits = self { true } else { false }
    }

    /// What the group's name begins with that stands in the lock while several hold it. Nobody else may be called so:
    /// `nil` for a lock that one holds alone.
    package var groupLabel: String? {
        switch self {
        case .exclusive: nil
        case .shared: Self.sharedLabel
        case .permits(let count): Self.permitsLabel + "\(count)"
        }
    }

    /// The places of the semaphore that a group with this name is; `nil`: it is none.
    package static func places(ofGroup name: String) -> Int? {
        guard name.hasPrefix(permitsLabel) else { return nil }
        return Int(name.dropFirst(permitsLabel.count).prefix { $0 != "/" })
    }

    /// Whether `token` could be the name of a group or a ticket: such a token has no holder.
    package static func isReserved(token: String) -> Bool {
        isReserved(label: token.prefix { $0 != "/" }) || OwnerToken.isTicket(token)
    }

    /// Whether `label` could be taken for the name of a group or for a ticket.
    package static func isReserved(label: some StringProtocol) -> Bool {
        if label == sharedLabel || OwnerToken.isTicket(label) { return true }
        guard label.hasPrefix(permitsLabel) else { return false }
        return label.dropFirst(permitsLabel.count).utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    private static let sharedLabel = "shared"
    private static let permitsLabel = "permits-"
}

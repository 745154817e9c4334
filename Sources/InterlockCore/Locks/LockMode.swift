/// The mode in which a lock is held.
public enum LockMode: Hashable, Sendable {
    /// Held by a single holder.
    case exclusive
    /// Held by any number of readers, while no writer holds it exclusively.
    case shared
    /// Held by at most this many holders: a semaphore.
    case permits(Int)

    /// The range of a semaphore's slot count.
    public static let slots = 1...1_000_000
    /// The former name of `slots`.
    @available(*, deprecated, renamed: "slots") public static var places: ClosedRange<Int> { slots }

    /// The mode's name in the APIs.
    package var rawName: String {
        switch self {
        case .exclusive: "exclusive"
        case .shared: "shared"
        case .permits: "permits"
        }
    }

    /// The semaphore's number of slots; `nil` for other modes.
    package var permits: Int? {
        if case .permits(let count) = self { count } else { nil }
    }

    package var isSemaphore: Bool {
        if case .permits = self { true } else { false }
    }

    /// The label of the group's token; `nil` for a mode with a single holder. The token is the value of the lock's key
    /// while several callers can hold the lock, so callers must not use this label.
    package var groupLabel: String? {
        switch self {
        case .exclusive: nil
        case .shared: Self.sharedLabel
        case .permits(let count): Self.permitsLabel + "\(count)"
        }
    }

    /// Returns the number of slots of the semaphore whose group has this name; `nil` for another group.
    package static func slots(ofGroup name: String) -> Int? {
        guard name.hasPrefix(permitsLabel) else { return nil }
        return Int(name.dropFirst(permitsLabel.count).prefix { $0 != "/" })
    }

    /// Returns whether `token` could be mistaken for a group's token or for a ticket. No holder may use such a token.
    package static func isReserved(token: String) -> Bool {
        isReserved(label: token.prefix { $0 != "/" }) || OwnerToken.isTicket(token)
    }

    /// Returns whether `label` could be mistaken for the label of a group or for a ticket.
    package static func isReserved(label: some StringProtocol) -> Bool {
        if label == sharedLabel || OwnerToken.isTicket(label) { return true }
        guard label.hasPrefix(permitsLabel) else { return false }
        return label.dropFirst(permitsLabel.count).utf8.allSatisfy {
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
        }
    }

    private static let sharedLabel = "shared"
    private static let permitsLabel = "permits-"
}

/// The notices about a service's limits: one of each kind per limit and window, however many calls and subjects there
/// are.
package struct LimitNotices: Sendable {
    package enum Kind: CaseIterable, Sendable {
        /// Usage reached four fifths of the capacity.
        case near
        /// A call was refused.
        case reached
        /// A shadow limit would have refused a call.
        case shadow
    }

    package struct Notice: Equatable, Sendable {
        package var kind: Kind
        package var definition: Int
        package var subject: String?
        /// The usage at that time.
        package var used: Int64
        package var capacity: Int64
    }

    /// The minimum interval between two notices of a kind, in milliseconds.
    private static let minimumInterval: Int64 = 1000

    private let definitions: [LimitDefinition]
    /// The earliest time of the next notice, for each kind and definition.
    private var nextNoticeAt: [Instant]
    private(set) var pending: [Notice] = []

    init(definitions: [LimitDefinition]) {
        self.definitions = definitions
        nextNoticeAt = Array(repeating: Instant(nanoseconds: .min), count: definitions.count * Kind.allCases.count)
    }

    /// Adds the notices that follow from an evaluated batch for one of its counters.
    mutating func judged(
        _ counter: LimitBatch.Counter, before: Int64, after: Int64, capacity: Int64, excess: Int64, isRefused: Bool, now: Instant
    ) {
        func notice(_ kind: Kind) -> Notice {
            Notice(kind: kind, definition: counter.definition, subject: counter.name, used: after, capacity: capacity)
        }
        // A capacity of 1 has no state between empty and full.
        if capacity > 1, Self.isNear(after, capacity), !Self.isNear(before, capacity) { add(notice(.near), now: now) }
        if isRefused { add(notice(.reached), now: now) }
        if excess > 0 { add(notice(.shadow), now: now) }
    }

    private static func isNear(_ used: Int64, _ capacity: Int64) -> Bool { used >= capacity - capacity / 5 }

    private mutating func add(_ notice: Notice, now: Instant) {
        let index =
            notice.definition * Kind.allCases.count
            + {
                switch notice.kind {
                case .near: 0;
                case .reached: 1;
                case .shadow: 2
                }
            }()
        guard nextNoticeAt[index] <= now else { return }
        let interval = max(Self.minimumInterval, definitions[notice.definition].windowMilliseconds)
        nextNoticeAt[index] = now.advanced(byMilliseconds: interval)
        pending.append(notice)
    }

    mutating func removePending() -> [Notice] {
        defer { pending.removeAll(keepingCapacity: true) }
        return pending
    }
}

/// What is to be told of a service's limits: each kind once for each limit and window, however many calls and subjects
/// there are.
package struct LimitNotices: Sendable {
    package enum Kind: CaseIterable, Sendable {
        /// Four fifths of the capacity were reached.
        case near
        /// A call was refused.
        case reached
        /// A shadow limit would have refused a call.
        case shadow
    }

    /// One of them.
    package struct Notice: Equatable, Sendable {
        package var kind: Kind
        package var definition: Int
        package var subject: String?
        /// What was taken when it happened.
        package var used: Int64
        package var capacity: Int64
    }

    /// The least time between two of a kind, in milliseconds.
    private static let leastPause: Int64 = 1000

    private let definitions: [LimitDefinition]
    /// For each kind and definition, when it may be told again.
    private var quietUntil: [Instant]
    private(set) var pending: [Notice] = []

    init(definitions: [LimitDefinition]) {
        self.definitions = definitions
        quietUntil = Array(repeating: Instant(nanoseconds: .min), count: definitions.count * Kind.allCases.count)
    }

    /// What there is to tell of a counter that a batch was judged with.
    mutating func judged(
        _ counter: LimitBatch.Counter, before: Int64, after: Int64, capacity: Int64, excess: Int64, isRefused: Bool, now: Instant
    ) {
        func notice(_ kind: Kind) -> Notice {
            Notice(kind: kind, definition: counter.definition, subject: counter.name, used: after, capacity: capacity)
        }
        // Of a single place there is nothing near to its being taken.
        if capacity > 1, Self.isNear(after, capacity), !Self.isNear(before, capacity) { add(notice(.near), now: now) }
        if isRefused { add(notice(.reached), now: now) }
        if excess > 0 { add(notice(.shadow), now: now) }
    }

    private static func isNear(_ used: Int64, _ capacity: Int64) -> Bool { used >= capacity - capacity / 5 }

    private mutating func add(_ notice: Notice, now: Instant) {
        let place =
            notice.definition * Kind.allCases.count
            + {
                switch notice.kind {
                case .near: 0;
                case .reached: 1;
                case .shadow: 2
                }
            }()
        guard quietUntil[place] <= now else { return }
        quietUntil[place] = now.advanced(byMilliseconds: max(Self.leastPause, definitions[notice.definition].windowMilliseconds))
        pending.append(notice)
    }

    mutating func removePending() -> [Notice] {
        defer { pending.removeAll(keepingCapacity: true) }
        return pending
    }
}

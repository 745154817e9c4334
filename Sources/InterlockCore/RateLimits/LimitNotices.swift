/// The notices about a service's limits: at most one of each kind per limit and window, whatever the number of calls
/// and subjects.
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
        /// The index of the limit's definition.
        package var definitionIndex: Int
        package var subject: String?
        /// The usage at the time of the notice.
        package var used: Int64
        package var capacity: Int64
    }

    /// The minimum interval between two notices of a kind, in milliseconds.
    private static let minimumIntervalMilliseconds: Int64 = 1000

    private let definitions: [LimitDefinition]
    /// The earliest time of the next notice, for each definition and kind.
    private var nextNoticeAt: [Instant]
    private(set) var pending: [Notice] = []

    init(definitions: [LimitDefinition]) {
        self.definitions = definitions
        nextNoticeAt = Array(repeating: Instant(nanoseconds: .min), count: definitions.count * Kind.allCases.count)
    }

    /// Adds the notices that follow from the evaluation of a batch for one of its counters.
    /// - Parameters:
    ///   - before: the usage before the batch.
    ///   - after: the usage after the batch.
    ///   - excess: the number of granted calls for which a shadow limit had no capacity.
    ///   - isRefused: whether the counter refused a call.
    mutating func counterEvaluated(
        _ counter: LimitBatch.Counter, before: Int64, after: Int64, capacity: Int64, excess: Int64, isRefused: Bool,
        now: Instant
    ) {
        func makeNotice(_ kind: Kind) -> Notice {
            Notice(
                kind: kind, definitionIndex: counter.definitionIndex, subject: counter.name, used: after,
                capacity: capacity)
        }
        // A limit of capacity 1 is either unused or used up, and never nearly used up.
        if capacity > 1, Self.isNear(after, capacity), !Self.isNear(before, capacity) {
            add(makeNotice(.near), now: now)
        }
        if isRefused { add(makeNotice(.reached), now: now) }
        if excess > 0 { add(makeNotice(.shadow), now: now) }
    }

    private static func isNear(_ used: Int64, _ capacity: Int64) -> Bool { used >= capacity - capacity / 5 }

    private mutating func add(_ notice: Notice, now: Instant) {
        let index =
            notice.definitionIndex * Kind.allCases.count
            + {
                switch notice.kind {
                case .near: 0;
                case .reached: 1;
                case .shadow: 2
                }
            }()
        guard nextNoticeAt[index] <= now else { return }
        let intervalMilliseconds = max(
            Self.minimumIntervalMilliseconds, definitions[notice.definitionIndex].windowMilliseconds)
        nextNoticeAt[index] = now.advanced(byMilliseconds: intervalMilliseconds)
        pending.append(notice)
    }

    mutating func removePending() -> [Notice] {
        defer { pending.removeAll(keepingCapacity: true) }
        return pending
    }
}

internal import DequeModule
internal import InterlockCore

/// The permits of one service that this sidecar gave and whose outcome it awaits. Bounded in age; their number is its owner's
/// to bound.
struct PermitTable {
    struct Permit {
        unowned let service: GuardedService
        /// Of the breaker when the permit was given: outcomes of another one say nothing of the present.
        var generation: Int64
        /// It is one of the fleet's trial permits.
        var isTrial: Bool
        /// It tries what this sidecar has opened for itself.
        var isOwnTrial: Bool
        /// Whose call it is.
        var subject: String?
        var grantedAt: Instant
        var expiresAt: Instant
    }

    private var permits: [PermitID: Permit] = [:]
    /// In the order in which they lapse; those that were reported stay until they come to the front.
    private var order: Deque<(id: PermitID, expiresAt: Instant)> = []

    var count: Int { permits.count }

    /// When the next one lapses, if none is reported before.
    var nextLapse: Instant? { order.first?.expiresAt }

    /// O(1), but for the first ones after the lifetime was shortened.
    mutating func insert(_ permit: Permit, id: PermitID) {
        permits[id] = permit
        var place = order.count
        while place > 0, order[place - 1].expiresAt > permit.expiresAt { place -= 1 }
        order.insert((id, permit.expiresAt), at: place)
        if order.count > 1024, order.count > 2 * permits.count { order.removeAll { permits[$0.id] == nil } }
    }

    /// Takes a permit out, whatever its age.
    mutating func remove(_ id: PermitID) -> Permit? {
        guard let permit = permits.removeValue(forKey: id) else { return nil }
        dropReported()
        return permit
    }

    /// Takes one out that has lapsed; `nil`: there is none.
    mutating func removeLapsed(now: Instant) -> Permit? {
        while let oldest = order.first, oldest.expiresAt <= now {
            order.removeFirst()
            if let permit = permits.removeValue(forKey: oldest.id) { return permit }
        }
        return nil
    }

    private mutating func dropReported() {
        while let oldest = order.first, permits[oldest.id] == nil { order.removeFirst() }
    }
}

/// A permit on its way: what was asked, how far it has come, and what it holds meanwhile.
final class PermitRequest {
    enum Stage {
        /// Redis is asked for a trial permit.
        case trial
        /// The limits are asked, under this mark; `nil`: they are just being asked.
        case limits(Int?)
        /// It waits for a place.
        case place
        /// It waits through a pause of the service.
        case pause
        /// It was answered, or given up: what still comes for it is given back.
        case over
    }

    /// Rises with the requests' arrival.
    let number: UInt64
    let service: GuardedService
    let cost: Int64
    let subject: String?
    /// Until when it is willing to wait; `nil`: not at all.
    let deadline: Instant?
    private let completion: Completion<PermitAnswer>

    var stage = Stage.pause
    /// The generation of the breaker that agreed; outcomes are counted under it.
    var generation: Int64
    /// The fleet's trial permit that it holds.
    var trial: PermitID?
    /// Until when the fleet keeps that for it.
    var trialUntil = Instant.distantFuture
    /// It is this sidecar's own trial, made because Redis is away.
    var isOwnTrial = false
    /// What it has taken from the limits and keeps while it waits for something else.
    var shares: [TakenShare] = []
    /// The limits have granted it.
    var isTaken = false
    /// It has one of the service's places.
    var hasPlace = false
    /// It has stood in a line, for a place or through a pause.
    var hasWaited = false

    init(
        number: UInt64, service: GuardedService, cost: Int64, subject: String?, deadline: Instant?,
        completion: Completion<PermitAnswer>
    ) {
        self.number = number
        self.service = service
        self.cost = cost
        self.subject = subject
        self.deadline = deadline
        self.completion = completion
        generation = service.breaker.snapshot.generation
    }

    /// It is one of those that find out whether the service is well.
    var isTrial: Bool { trial != nil || isOwnTrial }
    var isOver: Bool { if case .over = stage { true } else { false } }

    /// Ends the request. `false`: its caller has left.
    @discardableResult
    func answer(_ answer: PermitAnswer) -> Bool {
        stage = .over
        return completion(answer)
    }
}

internal import InterlockCore

/// A permit on its way: what was asked, how far it has come, and what it holds meanwhile.
final class PermitWish {
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

    /// Rises with the wishes' arrival.
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

    /// Ends the wish. `false`: its caller has left.
    @discardableResult
    func answer(_ answer: PermitAnswer) -> Bool {
        stage = .over
        return completion(answer)
    }
}

internal import InterlockJudge
internal import InterlockCore

/// A lease as its client sees it, and what the client means to do with it.
struct HeldLock: Sendable {
    /// How it ends.
    enum End: Hashable, Sendable {
        case release
        /// It is never released, and lapses.
        case forget
        /// Its client goes on after it is over, writes, and tries to renew.
        case overstay
        /// Its client closes the connection.
        case vanish
    }

    /// What is to be done next, and when.
    enum Step: Hashable, Sendable {
        case write
        case renew
        case end
    }

    let lock: Int
    let mode: LeaseMode
    let lease: LeaseID
    let token: String
    let fence: Int64
    let grantedAt: Instant
    var end: End
    var endsAt: Instant
    /// The client believes that it holds the lock until then, and no longer: what it asked for then is valid for so long,
    /// and nobody who asks can know when it was granted meanwhile.
    var believedUntil: Instant
    var writesAt: Instant?
    var renewsAt: Instant?

    /// What comes first.
    var next: (step: Step, at: Instant) {
        var next = (step: Step.end, at: endsAt)
        if let renewsAt, renewsAt <= next.at { next = (.renew, renewsAt) }
        if let writesAt, writesAt <= next.at { next = (.write, writesAt) }
        return next
    }

    /// Plans to renew at a third of the validity, if the lease would not last until the end.
    mutating func planRenewal(validFor: Int64, now: Instant) {
        renewsAt = nil
        guard end != .overstay, endsAt >= believedUntil else { return }
        renewsAt = now.advanced(byMilliseconds: max(1, validFor / 3))
    }
}

internal import InterlockCore

/// `locks.lua`: what the scripts of locks share.
extension ModelRedis {
    static let claimWindow = LockQueue.claimWindowMilliseconds

    /// The next fence, higher than every one before it.
    mutating func mint(_ keys: ModelLockKeys, ttl: Int64) -> Int64 {
        let lifetime = max(86_400_000, ttl)
        let last = get(keys.fence).flatMap { Int64($0) }
        var fence = microseconds
        if let last, last >= fence { fence = last + 1 }
        if mutant == .noFence, let last { fence = last }
        set(keys.fence, String(fence), px: lifetime)
        return fence
    }

    /// The fence of the grant that stands; a new one when it has lapsed.
    mutating func presentFence(_ keys: ModelLockKeys, ttl: Int64) -> Int64 {
        get(keys.fence).flatMap { Int64($0) } ?? mint(keys, ttl: ttl)
    }

    // MARK: The queue

    mutating func lineUp(_ keys: ModelLockKeys, _ ticket: String, lifetime: Int64, keepsItsPlace: Bool = false) {
        if !keepsItsPlace || score(keys.queue, ticket) == nil {
            let afterLast = members(keys.queue).last.map { $0.score + 1 } ?? 0
            add(keys.queue, ticket, score: max(Double(microseconds), afterLast))
        }
        if pttl(keys.queue) < lifetime { pexpire(keys.queue, lifetime) }
    }

    mutating func goToTheEnd(_ keys: ModelLockKeys, _ ticket: String, lifetime: Int64) {
        if lifetime > 0 { lineUp(keys, ticket, lifetime: lifetime) } else { remove(keys.queue, ticket) }
    }

    func firstTicket(_ keys: ModelLockKeys) -> String? { members(keys.queue).first?.member }

    /// How many heard it.
    @discardableResult
    mutating func tell(_ keys: ModelLockKeys, _ ticket: String, _ what: WakeHint.What) -> Int {
        publish(keys.wakePrefix + ticket.prefix { $0 != "/" }, WakeHint(what, ticket: ticket, lock: keys.name).text)
    }

    /// Takes the first ticket whose sidecar listens off the queue, and tells it that it is its turn. `nil`: there is none, or
    /// `own` is first.
    mutating func callNext(_ keys: ModelLockKeys, own: String? = nil) -> String? {
        while let ticket = popFirst(keys.queue), ticket != own {
            if tell(keys, ticket, .turn) > 0 { return ticket }
        }
        return nil
    }

    /// Whether the first is the asking sidecar's own ticket, which is not told.
    @discardableResult
    mutating func tellFirst(_ keys: ModelLockKeys, sidecar: String) -> Bool {
        guard let first = firstTicket(keys) else { return false }
        if first.hasPrefix(sidecar + "/") { return true }
        tell(keys, first, .first)
        return false
    }

    /// Gives a lock that is free to the next sidecar; `nil`: there is none. Else whether the asking sidecar is first after it.
    @discardableResult
    mutating func handOver(_ keys: ModelLockKeys, own: String? = nil, sidecar: String) -> Bool? {
        guard let ticket = callNext(keys, own: own) else { return nil }
        _ = mint(keys, ttl: Self.claimWindow)
        set(keys.lock, ticket, px: Self.claimWindow)
        return tellFirst(keys, sidecar: sidecar)
    }

    /// The ID of the sidecar that a ticket is of.
    static func sidecar(of ticket: String?) -> String {
        ticket.map { String($0.prefix { $0 != "/" }) } ?? ""
    }

    /// What a release that wakes nobody leaves behind.
    var losesWakeUps: Bool { mutant == .lostWakeUps }
}

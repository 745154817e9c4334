internal import InterlockCore

/// The scripts of shared locks and semaphores: `groups.lua`, `share.lua`, `share-renew.lua`, `share-release.lua`.
extension ModelRedis {
    /// How many places the group has that holds the lock, 0: any number; `nil`: no group does. Leases that have lapsed are
    /// dropped.
    mutating func groupPlaces(_ keys: ModelLockKeys, _ holder: String?) -> Int64? {
        guard let holder, let places = score(keys.holders, holder) else { return nil }
        let lapsed = members(keys.holders).filter {
            $0.score > Double(LockMode.places.upperBound) && $0.score <= Double(milliseconds)
        }
        for (token, _) in lapsed {
            remove(keys.holders, token)
            deleteField(keys.grants, token)
        }
        return Int64(places)
    }

    private func hasRoom(_ keys: ModelLockKeys, _ places: Int64) -> Bool {
        let more: Int64 = mutant == .oneMorePlace ? 1 : 0
        return places == 0 || Int64(cardinality(keys.holders)) - 1 < places + more
    }

    /// The lock and what belongs to it last as long as the last lease.
    private mutating func setGroupEnd(_ keys: ModelLockKeys) {
        guard let last = members(keys.holders).last else { return }
        for key in [keys.lock, keys.holders, keys.grants] { pexpire(key, Int64(last.score) - milliseconds) }
    }

    private mutating func hold(_ keys: ModelLockKeys, _ token: String, ttl: Int64) {
        add(keys.holders, token, score: Double(milliseconds + ttl))
        setGroupEnd(keys)
    }

    /// Those who wait get what has become free in the group.
    mutating func fillPlaces(_ keys: ModelLockKeys, sidecar: String) {
        guard let places = groupPlaces(keys, get(keys.lock)), exists(keys.queue), !losesWakeUps else { return }
        guard places > 0 else {
            _ = firstWhoListens(keys, besides: nil)
            return
        }
        while hasRoom(keys, places) {
            guard let ticket = callNext(keys) else { return }
            _ = mint(keys, ttl: Self.claimWindow)
            hold(keys, ticket, ttl: Self.claimWindow)
        }
        tellFirst(keys, sidecar: sidecar)
    }

    /// Tells the first to look, and drops those who no longer listen. `own` is not told.
    private mutating func firstWhoListens(_ keys: ModelLockKeys, besides own: String?) -> String? {
        while let first = firstTicket(keys), first != own {
            if tell(keys, first, .look) > 0 { return first }
            remove(keys.queue, first)
        }
        return firstTicket(keys)
    }

    /// - Parameters:
    ///   - places: 0 for readers.
    ///   - group: the group's name, should this be its first lease.
    mutating func share(
        _ keys: ModelLockKeys, token: String, ttl: Int64, onlyOwner: Bool = false, ticket: LockTicket?, places wanted: Int64,
        group: String
    ) -> AcquireReply {
        let sidecar = Self.sidecar(of: ticket?.token)
        let holder = get(keys.lock)
        guard let holder, holder != ticket?.token else {
            if onlyOwner { return refuse(keys, ticket, remaining: -1) }
            if holder == nil, exists(keys.queue) {
                if losesWakeUps { return refuse(keys, ticket, remaining: -1) }
                if handOver(keys, own: ticket?.token, sidecar: sidecar) != nil {
                    return refuse(keys, ticket, remaining: pttl(keys.lock))
                }
            }
            set(keys.lock, group, px: ttl)
            delete(keys.holders, keys.grants)
            add(keys.holders, group, score: Double(wanted))
            return join(keys, token: token, ttl: ttl, ticket: ticket, group: group)
        }

        guard let places = groupPlaces(keys, holder) else {
            if wanted > 0, !Self.isOffered(holder) { return .heldOtherwise(places: -1) }
            return refuse(keys, ticket, remaining: pttl(keys.lock))
        }
        guard (wanted == 0) == (places == 0) else { return .heldOtherwise(places: places) }
        if score(keys.holders, token) != nil {
            hold(keys, token, ttl: ttl)
            if let ticket { goToTheEnd(keys, ticket.token, lifetime: ticket.lifetimeOfOthers) }
            return .extended(fence: fields(keys.grants)[token].flatMap { Int64($0) } ?? 0, group: holder)
        }
        if !onlyOwner {
            if let ticket, score(keys.holders, ticket.token) != nil {
                return join(keys, token: token, ttl: ttl, ticket: ticket, group: holder)
            }
            if hasRoom(keys, places) {
                let first = firstWhoListens(keys, besides: ticket?.token)
                if first == nil || first == ticket?.token {
                    return join(keys, token: token, ttl: ttl, ticket: ticket, group: holder)
                }
            }
        }
        if places > 0, let next = members(keys.holders).dropFirst().first {
            return refuse(keys, ticket, remaining: max(0, Int64(next.score) - milliseconds))
        }
        return refuse(keys, ticket, remaining: pttl(keys.lock))
    }

    private mutating func join(
        _ keys: ModelLockKeys, token: String, ttl: Int64, ticket: LockTicket?, group: String
    ) -> AcquireReply {
        let fence = mint(keys, ttl: ttl)
        setFields(keys.grants, [token: String(fence)])
        hold(keys, token, ttl: ttl)
        if let ticket {
            remove(keys.holders, ticket.token)
            goToTheEnd(keys, ticket.token, lifetime: ticket.lifetimeOfOthers)
        }
        fillPlaces(keys, sidecar: Self.sidecar(of: ticket?.token))
        return .granted(fence: fence, group: group)
    }

    private mutating func refuse(_ keys: ModelLockKeys, _ ticket: LockTicket?, remaining: Int64) -> AcquireReply {
        guard let ticket else { return .held(ttl: remaining, place: -1) }
        lineUp(keys, ticket.token, lifetime: ticket.lifetime, keepsItsPlace: true)
        return .held(ttl: remaining, place: place(keys, of: ticket.token))
    }

    /// A turn that is being offered: the lock holds a ticket, which begins with 12 hexadecimal digits.
    private static func isOffered(_ holder: String) -> Bool {
        let digits = holder.utf8.prefix { $0 != UInt8(ascii: "/") }
        return digits.count == 12 && holder.utf8.count > 12
            && digits.allSatisfy { (48...57).contains($0) || (97...102).contains($0) || (65...70).contains($0) }
    }

    /// Whether it was extended.
    mutating func renewShare(_ keys: ModelLockKeys, token: String, ttl: Int64, isBySidecar: Bool = false) -> Bool {
        let holder = get(keys.lock)
        guard groupPlaces(keys, holder) != nil, holder != token else { return false }
        guard let end = score(keys.holders, token) else { return mutant == .renewWithoutToken }
        if !isBySidecar || Int64(end) < milliseconds + ttl { hold(keys, token, ttl: ttl) }
        return true
    }

    /// Whether it was ended.
    mutating func releaseShare(_ keys: ModelLockKeys, token: String, sidecar: String) -> Bool {
        let holder = get(keys.lock)
        guard groupPlaces(keys, holder) != nil, holder != token, remove(keys.holders, token) else { return false }
        deleteField(keys.grants, token)
        if cardinality(keys.holders) > 1 {
            setGroupEnd(keys)
            fillPlaces(keys, sidecar: sidecar)
        } else {
            delete(keys.lock, keys.holders, keys.grants)
            if exists(keys.queue), !losesWakeUps { handOver(keys, sidecar: sidecar) }
        }
        return true
    }
}

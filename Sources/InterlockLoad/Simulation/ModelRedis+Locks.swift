internal import InterlockCore

/// The scripts of locks that one holds alone: `acquire.lua`, `renew.lua`, `release.lua`, `leave.lua`, `break.lua`.
extension ModelRedis {
    mutating func acquire(
        _ keys: ModelLockKeys, token: String, ttl: Int64, onlyOwner: Bool = false, ticket: LockTicket? = nil
    ) -> AcquireReply {
        if !onlyOwner, takes(keys, token: token, ttl: ttl) {
            if mutant == .acquireWithoutCheck || !exists(keys.queue)
                || handOver(keys, own: ticket?.token, sidecar: Self.sidecar(of: ticket?.token)) == nil
            {
                let fence = mint(keys, ttl: ttl)
                if let ticket {
                    goToTheEnd(keys, ticket.token, lifetime: ticket.lifetimeOfOthers)
                    tellFirst(keys, sidecar: Self.sidecar(of: ticket.token))
                }
                return .granted(fence: fence, group: nil)
            }
        }
        let holder = get(keys.lock)
        if let holder, holder == token || holder == ticket?.token {
            let fence = presentFence(keys, ttl: ttl)
            set(keys.lock, token, px: ttl)
            if let ticket { goToTheEnd(keys, ticket.token, lifetime: ticket.lifetimeOfOthers) }
            return holder == token ? .extended(fence: fence, group: nil) : .granted(fence: fence, group: nil)
        }
        if let places = holder.flatMap(Self.places(ofSemaphore:)) { return .heldOtherwise(places: places) }
        var place: Int64 = -1
        if let ticket {
            lineUp(keys, ticket.token, lifetime: ticket.lifetime, keepsItsPlace: true)
            place = self.place(keys, of: ticket.token)
        }
        return .held(ttl: pttl(keys.lock), place: place)
    }

    /// `SET NX PX`, as far as no mutant has another opinion.
    private mutating func takes(_ keys: ModelLockKeys, token: String, ttl: Int64) -> Bool {
        // The queue is never looked at again: what was left in it stands in the way for ever.
        if losesWakeUps, exists(keys.queue) { return false }
        if mutant == .writersPassReaders, get(keys.lock)?.hasPrefix("shared/") ?? false {
            set(keys.lock, token, px: ttl)
            return true
        }
        if mutant == .acquireWithoutCheck {
            set(keys.lock, token, px: ttl)
            return true
        }
        return setIfAbsent(keys.lock, token, px: ttl)
    }

    func place(_ keys: ModelLockKeys, of ticket: String) -> Int64 {
        members(keys.queue).firstIndex { $0.member == ticket }.map(Int64.init) ?? -1
    }

    /// `^permits%-(%d+)/`
    static func places(ofSemaphore holder: String) -> Int64? {
        guard holder.hasPrefix("permits-") else { return nil }
        let digits = holder.utf8.dropFirst(8).prefix { $0 != UInt8(ascii: "/") }
        guard digits.endIndex != holder.utf8.endIndex, digits.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(String(Substring(digits)))
    }

    private static func isGroup(_ holder: String) -> Bool {
        holder.hasPrefix("shared/") || places(ofSemaphore: holder) != nil
    }

    /// - Parameter isBySidecar: it is never made shorter.
    mutating func renew(_ keys: ModelLockKeys, token: String, ttl: Int64, isBySidecar: Bool = false) -> TokenStanding {
        let holder = get(keys.lock)
        guard holder == token || mutant == .renewWithoutToken && holder != nil else {
            return holder.map(Self.isGroup) ?? false ? .perhapsInGroup : .lost
        }
        if !isBySidecar || pttl(keys.lock) < ttl { pexpire(keys.lock, ttl) }
        return .holds
    }

    mutating func release(
        _ keys: ModelLockKeys, token: String, sidecar: String, successor: LockSuccessor? = nil
    ) -> ReleaseReply {
        let holder = get(keys.lock)
        guard holder == token || mutant == .releaseWithoutToken && holder != nil else {
            return .refused(holder.map(Self.isGroup) ?? false ? .perhapsInGroup : .lost)
        }
        guard let successor, !losesWakeUps else {
            delete(keys.lock)
            if exists(keys.queue), !losesWakeUps { handOver(keys, sidecar: sidecar) }
            return .freed
        }
        let ticket = successor.ticket
        if !successor.goesOn, let first = firstTicket(keys), first != ticket.token {
            delete(keys.lock)
            lineUp(keys, ticket.token, lifetime: ticket.lifetime, keepsItsPlace: true)
            return .freedForOthers(isFirst: handOver(keys, sidecar: sidecar) ?? false)
        }
        let fence = mint(keys, ttl: successor.ttl)
        set(keys.lock, successor.token, px: successor.ttl)
        if !successor.goesOn || !ticket.hasOthers {
            goToTheEnd(keys, ticket.token, lifetime: ticket.lifetimeOfOthers)
            tellFirst(keys, sidecar: sidecar)
        }
        return .passedOn(fence: fence, beginsTurn: !successor.goesOn)
    }

    /// Whether a turn was given back.
    mutating func leave(_ keys: ModelLockKeys, ticket: String, sidecar: String) -> Bool {
        if losesWakeUps { return false }
        if remove(keys.queue, ticket) {
            if groupPlaces(keys, get(keys.lock)) == 0 {
                fillPlaces(keys, sidecar: sidecar)
            } else {
                tellFirst(keys, sidecar: sidecar)
            }
        }
        if get(keys.lock) == ticket {
            delete(keys.lock)
            if exists(keys.queue) { handOver(keys, sidecar: sidecar) }
            return true
        }
        guard remove(keys.holders, ticket) else { return false }
        fillPlaces(keys, sidecar: sidecar)
        if groupPlaces(keys, get(keys.lock)) != nil, cardinality(keys.holders) == 1 {
            delete(keys.lock, keys.holders, keys.grants)
        }
        return true
    }

    /// `event` is published with the time in ms between its parts.
    mutating func breakLock(_ keys: ModelLockKeys, events: String, event: (before: String, after: String)) -> Bool {
        guard get(keys.lock) != nil, pttl(keys.lock) >= 0 else { return false }
        delete(keys.lock, keys.holders, keys.grants)
        publish(events, event.before + String(milliseconds) + event.after)
        if exists(keys.queue) { handOver(keys, sidecar: "") }
        return true
    }
}

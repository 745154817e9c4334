internal import Interlock
internal import InterlockCore

/// `take.lua` and `give-back.lua`.
extension ModelRedis {
    private struct Counter {
        enum State {
            /// What is left of its window, in ms; of one that has not begun, all of it.
            case fixed(ttl: Int64)
            case sliding(SlidingLog)
            case cells(ArrivalTime)
        }

        let key: String
        let definition: LimitDefinition
        let state: State
        let before: Int64
        var used: Int64
        /// Somebody who came before and was refused waits for it, for so many microseconds.
        var blocked: Int64?
        var excess: Int64 = 0

        /// In how many microseconds it would grant `cost`, if nobody else takes of it.
        func wait(for cost: Int64) -> Int64 {
            switch state {
            case .fixed(let ttl): (ttl + 1) * 1000
            case .sliding(let log): log.wait(units: used + cost - definition.capacity)
            case .cells(let cells): cells.wait(more: used - before, until: definition.capacity - cost)
            }
        }
    }

    /// Judges a batch of calls of one service against its limits, in order, and takes exactly what it grants.
    mutating func take(_ batch: LimitBatch, of service: String, keys: KeySpace) -> LimitVerdict {
        var counters = batch.counters.map { counter in
            let definition = batch.definitions[counter.definition]
            return open(keys.rate(service: service, of: definition, subject: counter.subject), definition)
        }
        let runs = batch.runs.map { run in judge(run, wide: batch.serviceWideCount, narrow: batch.perSubjectCount, &counters) }
        return LimitVerdict(
            timeMicroseconds: microseconds,
            counters: counters.map { counter in
                LimitVerdict.Counter(
                    count: counter.before, capacity: counter.definition.capacity, resetAfter: write(counter),
                    excess: counter.excess)
            },
            runs: runs)
    }

    private mutating func open(_ key: String, _ definition: LimitDefinition) -> Counter {
        let window = definition.windowMilliseconds
        let state: Counter.State
        let taken: Int64
        switch definition.algorithm {
        case .fixed:
            taken = get(key).flatMap(Int64.init) ?? 0
            if taken > 0, pttl(key) == -1, mutant != .counterWithoutExpiry { pexpire(key, window) }
            let ttl = pttl(key)
            state = .fixed(ttl: taken > 0 && ttl >= 0 ? ttl : window)
        case .sliding:
            let log = SlidingLog(fields(key), window: window * 1000, time: microseconds)
            (state, taken) = (.sliding(log), log.total)
        case .gcra:
            let cells = ArrivalTime(get(key), limit: definition.limit, window: window * 1000, time: microseconds)
            (state, taken) = (.cells(cells), cells.taken(capacity: definition.capacity))
        }
        return Counter(key: key, definition: definition, state: state, before: taken, used: taken)
    }

    private func judge(
        _ run: LimitBatch.Run, wide: Int, narrow: Int, _ counters: inout [Counter]
    ) -> LimitVerdict.Run {
        let first = wide + (run.group - 1) * narrow
        let own = Array(0..<wide) + (run.group == 0 ? [] : Array(first..<(first + narrow)))
        let real = own.filter { !counters[$0].definition.isShadow }
        let granted = real.map { room(for: run, in: counters[$0]) }.min().map { min($0, Int64(run.count)) } ?? Int64(run.count)
        for index in real { count(granted, of: run.cost, in: &counters[index]) }
        var verdict = LimitVerdict.Run(granted: Int(granted), binding: 0, retryAfterMicroseconds: 0)
        if granted < run.count {
            for index in real where counters[index].blocked != nil || lacks(run.cost, counters[index]) {
                let wait = max(1, counters[index].wait(for: run.cost), counters[index].blocked ?? 0)
                if run.waits { counters[index].blocked = wait }
                if wait > verdict.retryAfterMicroseconds { (verdict.binding, verdict.retryAfterMicroseconds) = (index, wait) }
            }
        }
        for index in own where counters[index].definition.isShadow {
            let room = counters[index].definition.capacity - counters[index].used
            let fits = min(granted, max(0, room) / run.cost)
            counters[index].used += fits * run.cost
            counters[index].excess += granted - fits
        }
        return verdict
    }

    private func capacity(of counter: Counter) -> Int64 {
        counter.definition.capacity + (mutant == .oneMoreCall ? 1 : 0)
    }

    private func lacks(_ cost: Int64, _ counter: Counter) -> Bool { capacity(of: counter) - counter.used < cost }

    /// How many calls of the run a counter grants.
    private func room(for run: LimitBatch.Run, in counter: Counter) -> Int64 {
        if counter.blocked != nil { return 0 }
        guard mutant != .lostCounts else { return capacity(of: counter) - counter.before < run.cost ? 0 : Int64(run.count) }
        return max(0, capacity(of: counter) - counter.used) / run.cost
    }

    private func count(_ calls: Int64, of cost: Int64, in counter: inout Counter) {
        // All have read the same, and each writes what it has read and its own cost.
        if mutant == .lostCounts {
            if calls > 0 { counter.used = max(counter.used, counter.before + cost) }
        } else {
            counter.used += calls * cost
        }
    }

    /// Keeps what was taken. Returns in how many ms it is whole again.
    private mutating func write(_ counter: Counter) -> Int64 {
        let taken = counter.used - counter.before
        switch counter.state {
        case .fixed(let ttl):
            guard taken > 0 else { return ttl }
            if counter.before > 0 {
                setKeepingTTL(counter.key, "\(counter.used)")
            } else {
                set(counter.key, "\(taken)", px: mutant == .counterWithoutExpiry ? nil : ttl)
            }
            return ttl
        case .sliding(let log):
            write(log, taken: taken, at: counter.key)
            return (log.reset(more: taken) + 999) / 1000
        case .cells(let cells):
            if taken > 0 { write(cells.text(more: taken), at: counter.key) }
            return (cells.wait(more: taken, until: 0) + 999) / 1000
        }
    }

    private mutating func write(_ log: SlidingLog, taken: Int64, at key: String) {
        switch log.change(taking: taken) {
        case nil:
            break
        case .empty:
            delete(key)
        case .kept(let fields, let stale, let ttl):
            setFields(key, fields)
            if let ttl { pexpire(key, ttl) }
            for number in stale { deleteField(key, "\(number)") }
        }
    }

    private mutating func write(_ arrival: (String, ttl: Int64)?, at key: String) {
        guard let (text, ttl) = arrival else { return delete(key) }
        set(key, text, px: ttl)
    }

    /// Gives back what a call took from its limits and did not use. Returns how many counters took it back.
    mutating func giveBack(_ shares: [TakenShare]) -> Int64 {
        var returned: Int64 = 0
        for share in shares where giveBack(share) { returned += 1 }
        return returned
    }

    private mutating func giveBack(_ share: TakenShare) -> Bool {
        let window = share.limit.windowMilliseconds
        switch share.limit.algorithm {
        case .fixed:
            let ttl = pttl(share.key)
            guard ttl > 0, abs(microseconds + (ttl - share.since) * 1000) * 2 < window * 1000 else { return false }
            let counted = get(share.key).flatMap(Int64.init) ?? 0
            let amount = min(share.cost, counted)
            if amount > 0 { setKeepingTTL(share.key, "\(counted - amount)") }
            return true
        case .sliding:
            let log = SlidingLog(fields(share.key), window: window * 1000, time: microseconds)
            guard let fields = log.giveBack(share.cost, takenAt: share.since) else { return false }
            setFields(share.key, fields)
            return true
        case .gcra:
            guard let value = get(share.key), microseconds < share.since else { return false }
            let cells = ArrivalTime(value, limit: share.limit.limit, window: window * 1000, time: microseconds)
            write(cells.text(givingBack: share.cost, left: share.since - microseconds), at: share.key)
            return true
        }
    }
}

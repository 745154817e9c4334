enum SortedSetCommands {
    static let all: [Command] = [
        Command("zadd", -4, [.write, .needsMemory], .first, zadd),
        Command("zrem", -3, .write, .first, zrem),
        Command("zremrangebyscore", 4, .write, .first, zremrangebyscore),
        Command("zpopmin", -2, .write, .first, zpopmin),
        Command("zscore", 3, .read, .first) { (server, call) throws(CommandError) in
            try server.sortedSet(call[1])?.score(of: call[2]).map { .score($0) } ?? .null
        },
        Command("zrank", 3, .read, .first) { (server, call) throws(CommandError) in
            try server.sortedSet(call[1])?.rank(of: call[2]).map { .integer(Int64($0)) } ?? .null
        },
        Command("zcard", 2, .read, .first) { (server, call) throws(CommandError) in
            .integer(Int64(try server.sortedSet(call[1])?.count ?? 0))
        },
        Command("zcount", 4, .read, .first) { (server, call) throws(CommandError) in
            let (low, high) = try (ScoreBound(call[2]), ScoreBound(call[3]))
            return .integer(Int64(try server.sortedSet(call[1])?.positions(from: low, to: high).count ?? 0))
        },
        Command("zrange", -4, .read, .first, zrange),
        Command("zrangebyscore", -4, .read, .first, zrangebyscore),
    ]

    private static func zadd(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        var start = 2
        var (onlyNew, onlyOld, countsChanged) = (false, false, false)
        options: while start < call.count {
            if call[start].isWord("nx") {
                onlyNew = true
            } else if call[start].isWord("xx") {
                onlyOld = true
            } else if call[start].isWord("ch") {
                countsChanged = true
            } else {
                break options
            }
            start += 1
        }
        guard start < call.count, (call.count - start).isMultiple(of: 2) else { throw .syntax }
        if onlyNew, onlyOld { throw CommandError("ERR XX and NX options at the same time are not compatible") }
        var pairs: [SortedSet.Element] = []
        for index in stride(from: start, to: call.count, by: 2) {
            pairs.append(SortedSet.Element(score: try call.double(index), member: call[index + 1]))
        }
        guard try server.sortedSet(call[1]) != nil || !onlyOld else { return .integer(0) }
        let (added, changed) = try server.updateSortedSet(call[1]) { set in
            var (added, changed) = (0, 0)
            for pair in pairs {
                let old = set.score(of: pair.member)
                guard old == nil ? !onlyOld : !onlyNew else { continue }
                if old == nil { added += 1 } else if old != pair.score { changed += 1 }
                set.set(pair.member, to: pair.score)
            }
            return (added, changed)
        }
        if added + changed > 0 { server.signalChange(of: call[1]) }
        return .integer(Int64(countsChanged ? added + changed : added))
    }

    private static func zrem(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        try removal(server, call[1]) { set in call.arguments.dropFirst(2).count { set.remove($0) } }
    }

    private static func zremrangebyscore(
        _ server: SimulatedServer, _ call: Invocation
    ) throws(CommandError) -> Reply {
        let (low, high) = try (ScoreBound(call[2]), ScoreBound(call[3]))
        return try removal(server, call[1]) { set in
            let range = set.positions(from: low, to: high)
            set.remove(range)
            return range.count
        }
    }

    /// Removes members, and the key if no member remains. Replies with the number of removed members.
    private static func removal(
        _ server: SimulatedServer, _ key: Bytes, _ remove: (inout SortedSet) -> Int
    ) throws(CommandError) -> Reply {
        guard try server.sortedSet(key) != nil else { return .integer(0) }
        let (removedCount, isEmpty) = try server.updateSortedSet(key) { (remove(&$0), $0.count == 0) }
        if isEmpty {
            _ = server.remove(key)
        } else if removedCount > 0 {
            server.signalChange(of: key)
        }
        return .integer(Int64(removedCount))
    }

    private static func zpopmin(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        guard call.count <= 3 else { throw .syntax }
        let count = call.count > 2 ? call[2].integer ?? -1 : 1
        guard count >= 0 else { throw CommandError("ERR value is out of range, must be positive") }
        guard let set = try server.sortedSet(call[1]) else { return .array([]) }
        let first = set.elements.prefix(Int(clamping: count))
        _ = try removal(server, call[1]) { set in
            set.remove(0..<first.count)
            return first.count
        }
        return elements(first, withScores: true)
    }

    private static func zrange(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        var (withScores, isReversed) = (false, false)
        for option in call.arguments.dropFirst(4) {
            if option.isWord("withscores") {
                withScores = true
            } else if option.isWord("rev"), !isReversed {
                isReversed = true
            } else {
                throw .syntax
            }
        }
        let (start, end) = try (call.integer(2), call.integer(3))
        guard let set = try server.sortedSet(call[1]) else { return .array([]) }
        let count = Int64(set.count)
        let first = max(0, start < 0 ? count + max(start, -count) : start)
        let last = min(count - 1, end < 0 ? count + max(end, -count - 1) : end)
        guard first <= last else { return .array([]) }
        if isReversed {
            return elements(set.elements.reversed()[Int(first)...Int(last)], withScores: withScores)
        }
        return elements(set.elements[Int(first)...Int(last)], withScores: withScores)
    }

    private static func zrangebyscore(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        var withScores = false
        var (offset, limit): (Int64, Int64) = (0, -1)
        var index = 4
        while index < call.count {
            if call[index].isWord("withscores") {
                withScores = true
            } else if call[index].isWord("limit"), index + 2 < call.count {
                (offset, limit) = try (call.integer(index + 1), call.integer(index + 2))
                index += 2
            } else {
                throw .syntax
            }
            index += 1
        }
        let (low, high) = try (ScoreBound(call[2]), ScoreBound(call[3]))
        guard let set = try server.sortedSet(call[1]), offset >= 0 else { return .array([]) }
        let found = set.elements[set.positions(from: low, to: high)].dropFirst(Int(clamping: offset))
        return elements(found.prefix(limit < 0 ? .max : Int(clamping: limit)), withScores: withScores)
    }

    private static func elements(_ elements: ArraySlice<SortedSet.Element>, withScores: Bool) -> Reply {
        guard withScores else { return .bulks(elements.map(\.member)) }
        return .array(elements.flatMap { [.bulk($0.member), .score($0.score)] })
    }
}

extension ScoreBound {
    fileprivate init(_ text: Bytes) throws(CommandError) {
        let isExclusive = text.storage.first == UInt8(ascii: "(")
        let number = isExclusive ? Bytes(Array(text.storage.dropFirst())) : text
        guard let score = number.double else { throw .notAScoreBound }
        self.init(score: score, isExclusive: isExclusive)
    }
}

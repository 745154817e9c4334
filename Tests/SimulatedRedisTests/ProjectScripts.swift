import InterlockCore
import RedisClient

@testable import Interlock

/// The scripts of Interlock, and random calls to them.
struct ProjectScripts {
    struct Call {
        var script: [UInt8]
        var keys: [String]
        var arguments: [[UInt8]]
        /// Whether the reply lists the fields of a hash, which are unordered in a large hash.
        var isUnordered = false
    }

    private var random: RandomCommands
    private let sources: [String: [UInt8]]

    init(seed: UInt64) {
        random = RandomCommands(seed: seed)
        let locks = LockScripts(LockSettings(), isOnCluster: false)
        let all = [
            locks.acquire, locks.release, locks.breakLock, locks.leave, locks.inspect, locks.share, locks.shareRenew,
            locks.shareRelease, locks.renew, locks.leaseState, locks.quorumAcquire, locks.quorumFence, locks.quorumRenew,
            QuorumReleaseScript.source, QuorumBreakScript.source, QuorumInspectScript.source, TakeScript.source,
            RefundScript.source, PeekScript.source, ThrottleScript.source, PublishScript.source, FleetScript.source,
            locks.fencedRenew, locks.fencedRelease, locks.fencedShareRenew, locks.fencedShareRelease,
        ]
        let breakers = ["sync", "report", "vote", "trip", "half-open", "trial", "outcome", "close", "down", "up", "force"]
            .map { RedisScript(library: "breaker-" + $0) }
        sources = Dictionary(uniqueKeysWithValues: (all + breakers).map { (String($0.name.dropLast(".lua".count)), $0.source) })
    }

    static let sidecars = ["0123456789aa", "0123456789bb"]

    mutating func chance(_ percent: Int) -> Bool { random.chance(percent) }

    mutating func pick<Element>(_ elements: [Element]) -> Element { random.pick(elements) }

    // MARK: Locks

    private func lockKeys(_ name: String, _ count: Int) -> [String] {
        ["lock", "fence", "queue", "holders", "grants", "counts"].prefix(count).map { "i:\($0):{\(name)}" }
    }

    private mutating func token() -> String { "\(pick(Self.sidecars))/token\(pick(["1", "2", "3"]))" }
    private mutating func ticket() -> String { "\(pick(Self.sidecars + ["0123456789cc"]))/00112233445566778899aabbccddeeff" }
    private mutating func ttl() -> String { pick(["50", "300", "1000", "90000000"]) }
    private mutating func clock() -> String { pick(["0000000000000000", "1700000000000000", "1700000300000000"]) }
    private mutating func fence() -> String { pick(["1700000000000000", "1700000000000001", "1700000300000000"]) }
    private mutating func mode() -> String { pick(["take", "take", "take", "own"]) }

    mutating func lockCall() -> Call {
        let name = pick(["one", "two"])
        switch random.number(0...16) {
        case 12: return call("fenced-renew", lockKeys(name, 3), [token(), ttl()] + (chance(50) ? ["watch"] : []) + [fence()])
        case 13: return call("fenced-release", lockKeys(name, 3), [token(), "wake:", pick(Self.sidecars), fence()])
        case 14: return call("fenced-share-renew", lockKeys(name, 5), [token(), ttl(), fence()])
        case 15: return call("fenced-share-release", lockKeys(name, 5), [token(), "wake:", pick(Self.sidecars), fence()])
        case 16:
            let keys = ["lock", "fence", "holders", "grants"]
            let both = ["one", "two"].flatMap { name in keys.map { "i:\($0):{\(name)}" } }
            return call("lease-state", both, [token(), fence(), token(), fence()])
        case 0: return call("acquire", lockKeys(name, 3), [token(), ttl(), "wake:", clock()])
        case 1:
            return call(
                "acquire", lockKeys(name, 5),
                [token(), ttl(), "wake:", clock(), mode(), ticket(), "400", pick(["0", "400"])])
        case 2: return call("acquire", lockKeys(name, 3), [token(), ttl(), "wake:", clock(), "own"])
        case 3: return call("renew", lockKeys(name, 1), [token(), ttl()] + (chance(50) ? ["watch"] : []))
        case 4: return call("release", lockKeys(name, 3), [token(), "wake:", pick(Self.sidecars)])
        case 5:
            return call(
                "release", lockKeys(name, 3),
                [
                    token(), "wake:", pick(Self.sidecars), token(), ttl(), pick(["on", "over"]), ticket(), "400",
                    pick(["0", "400"]),
                ] + (chance(50) ? [clock()] : []))
        case 6: return call("leave", lockKeys(name, 5), [ticket(), "wake:", pick(Self.sidecars)])
        case 7:
            return call(
                "break", lockKeys(name, 5), ["wake:", "events", #"{"v":1,"at_ms":"#, "}", pick(["", "", "1700000000000001"])])
        case 8: return call("inspect", lockKeys(name, 6), [pick(Self.sidecars), "4", "wake:", "10000"])
        case 9: return call("share-renew", lockKeys(name, 5), [token(), ttl()] + (chance(50) ? ["watch"] : []))
        case 10: return call("share-release", lockKeys(name, 5), [token(), "wake:", pick(Self.sidecars)])
        default:
            let slots = pick(["0", "0", "2", "3"])
            let group = (slots == "0" ? "shared" : "permits-\(slots)") + "/00112233445566778899aabbccddeef" + pick(["0", "1"])
            let waits = chance(50) ? [ticket(), "400", pick(["0", "400"])] : ["", "", ""]
            return call("share", lockKeys(name, 5), [token(), ttl(), "wake:", mode()] + waits + [slots, group])
        }
    }

    mutating func quorumCall() -> Call {
        let keys = ["q:lock:{a}", "q:fence:{a}"]
        switch random.number(0...5) {
        case 0: return call("quorum-acquire", keys, [token(), ttl(), mode()])
        case 1:
            let fences = ["5", "1700000000000001", "1700000900000000"]
            let found = pick(["0", "1700000000000002"] + fences)
            let restore = [pick(["1700000000000", "1700000001000"]), pick(["100", "5000"])]
            return call("quorum-fence", keys, [token(), pick(fences), ttl(), found] + (chance(50) ? restore : []))
        case 2:
            let only = ["unrecorded", "5", "1700000000000001"]
            return call("quorum-release", keys, [token()] + (chance(50) ? [pick(only)] : []))
        case 3: return call("quorum-renew", keys, [token(), ttl()] + (chance(50) ? ["5"] : []))
        case 4: return call("quorum-break", [keys[0]], [pick(["", token()])])
        default: return call("quorum-inspect", keys, [])
        }
    }

    // MARK: Limits

    mutating func limitCall() -> Call {
        switch random.number(0...4) {
        case 0, 1: return take()
        case 2:
            let algorithm = pick(["0", "1", "2"])
            return call("peek", ["rate:\(algorithm)"], [algorithm, "5", "5", "1000"])
        case 3:
            let algorithm = pick(["0", "1", "2"])
            let since = pick(["1700000000000000", "1700000003000000", "1700000001000", "1700000002500000"])
            return call("refund", ["rate:\(algorithm)"], [algorithm, pick(["1", "2"]), since, "5", "1000", "5"])
        default:
            return call("throttle", ["throttle"], [pick(["3", "10"]), pick(["5", "7"]), "1000000", pick(["0", "1", "2"])])
        }
    }

    private mutating func take() -> Call {
        var numbers = [2, 1]
        let algorithms = (0..<3).map { _ in random.number(0...2) }
        for algorithm in algorithms { numbers += [algorithm, 5, 5, 1000, chance(20) ? 1 : 0] }
        var runs = [pick([0, 0, 0, 1, 2])]
        var asked = [0, 0, 0, 0]
        var hasRefunds = false
        for _ in 0...random.number(0...2) {
            let (count, group) = (random.number(1...4), random.number(0...2))
            let counters = [0, 1] + (group > 0 ? [1 + group] : [])
            runs += [count, random.number(0...1), counters.count]
            for counter in counters {
                let cost = chance(10) ? random.number(-2...0) : random.number(1...3)
                runs += [counter, cost]
                if cost < 0 { hasRefunds = true } else { asked[counter] += count * cost }
            }
        }
        // 0 means that the end of a window is unknown.
        numbers += [0, 0, 0, 0, 0] + asked
        let keys = ["rate:\(algorithms[0])", "rate:\(algorithms[1])b", "rate:\(algorithms[2]):x", "rate:\(algorithms[2]):y"]
        let arguments = [Self.packed(numbers), Self.packed(runs)] + (hasRefunds ? [[UInt8(ascii: "1")]] : [])
        return Call(script: sources["take"] ?? [], keys: keys, arguments: arguments)
    }

    private static func packed(_ numbers: [Int]) -> [UInt8] {
        var bytes: [UInt8] = [0xdc, UInt8(numbers.count >> 8), UInt8(numbers.count & 0xff)]
        for number in numbers {
            switch number {
            case ..<0: bytes += [0xd0, UInt8(bitPattern: Int8(number))]
            case ..<128: bytes.append(UInt8(number))
            default: bytes += [0xcd, UInt8(number >> 8), UInt8(number & 0xff)]
            }
        }
        return bytes
    }

    // MARK: Other scripts

    mutating func fleetCall() -> Call {
        if chance(20) { return call("publish", [], ["events", #"{"v":1,"at_ms":"#]) }
        return call(
            "fleet", ["fleet"],
            [pick(Self.sidecars), pick(["15000", "100", "0"]), "events", #"{"type":""#, #"","at_ms":"#, "fleet:"])
    }

    /// Returns a random breaker operation.
    ///
    /// - Parameter generation: the breaker's current generation.
    mutating func breakerCall(generation: String) -> Call {
        let keys = ["b", "b:history", "b:window", "b:trials", "b:votes", "b:window-before"]
        let expect = chance(80) ? generation : "7"
        var members = [
            #""service":"s","by":"me \"quoted\" é","origin":"\#(pick(Self.sidecars))","db":0,"channel":"events""#,
            #""history":\#(pick(["5", "100"])),"random":0.\#(random.number(1...9)),"expect":"\#(expect)""#,
            #""open_min":100,"open_max":5000"#,
        ]
        let (name, arguments) = operation()
        members += arguments
        return call("breaker-\(name)", keys, ["{\(members.joined(separator: ","))}"], isUnordered: true)
    }

    /// Returns an operation's name, which is part of its script's name, and its arguments.
    private mutating func operation() -> (name: String, arguments: [String]) {
        let pause = chance(20) ? [#""pause":700,"longest":3000"#] : []
        switch random.number(0...10) {
        case 0:
            let known =
                chance(30)
                ? [
                    #""known":{"state":"open","generation":"1700000500000000","since":"1699999999000","until":"1700009999000","cause":"failures"}"#
                ] : []
            let configuration = pick(["abc", String(repeating: "d", count: 70)])
            return ("sync", [#""configuration":"\#(configuration)""#] + known + (chance(50) ? [#""declares":true"#] : []))
        case 1, 2, 3:
            let calls = random.number(1...30)
            let failures = random.number(0...calls)
            let sums = [
                #""calls":\#(calls),"failures":\#(failures),"slow":\#(random.number(0...calls)),"trailing":1"#,
                pick([#""window":1000"#, #""window_calls":50"#]),
                #""slices":10,"minimum":5,"failure_rate":0.5,"slow_rate":0.8,"consecutive":60"#,
            ]
            return ("report", sums + (chance(70) ? [#""judge":true"#] : []) + (chance(20) ? [#""retry_after":900"#] : []))
        case 4: return ("vote", [#""cause":"failures","reporters":2,"lapse":2000"#] + pause)
        case 5: return ("trip", [#""cause":"\#(pick(["limit", "failures"]))""#] + pause)
        case 6: return ("half-open", [])
        case 7: return ("trial", [#""at_least":"0","id":"t\#(random.number(1...4))","permits":2,"lifetime":500"#])
        case 8:
            let outcome = pick(["ok", "error", "ignore"])
            return ("outcome", [#""id":"t\#(random.number(1...4))","outcome":"\#(outcome)","permits":2"#] + pause)
        case 9:
            if chance(50) { return ("close", [#""cause":"\#(pick(["auto", "limit"]))""#]) }
            let state = pick(["open", "closed", "disabled", "auto"])
            return (
                "force", [#""state":"\#(state)","cause":"forced","reason":"why""#] + (chance(50) ? [#""for":800"#] : [])
            )
        default:
            if chance(50) {
                return ("down", [#""reason":"gone","lapse":600"#] + (chance(50) ? [#""quorum":2"#] : []))
            }
            return ("up", (chance(50) ? [#""trial":true"#] : []) + (chance(50) ? [#""quorum":1"#] : []))
        }
    }

    private func call(_ name: String, _ keys: [String], _ arguments: [String], isUnordered: Bool = false) -> Call {
        Call(script: sources[name] ?? [], keys: keys, arguments: arguments.map { Array($0.utf8) }, isUnordered: isUnordered)
    }
}

import InterlockCore
import NIOCore
import Testing

@testable import Interlock
@testable import SidecarConsole
@testable import SidecarListeners

/// Tests the parts that make up the console, without a listener.
@Suite("Live views")
struct LiveViewTests {
    // MARK: Views

    @Test("A view is parsed with its parameters", arguments: ["overview", "LOCKS", "services", "grants", "events"])
    func viewIsParsedWithParameters(word: String) throws {
        _ = try LiveView(word)
    }

    @Test("A missing, invalid or misplaced parameter is refused with an explanation")
    func refusals() {
        func message(_ read: () throws(InterlockError) -> LiveView) -> String {
            do {
                return "\(try read())"
            } catch {
                return error.message
            }
        }
        #expect(message { () throws(InterlockError) in try LiveView("lok") }.contains("overview, locks, lock"))
        #expect(message { () throws(InterlockError) in try LiveView("lock") } == "the view lock needs the lock's name")
        #expect(message { () throws(InterlockError) in try LiveView("service", name: "a b") }.contains("name"))
        #expect(message { () throws(InterlockError) in try LiveView("grants", search: "x") } == "the view grants takes no search")
        #expect(message { () throws(InterlockError) in try LiveView("locks", from: "1") } == "the view locks takes no from")
        #expect(message { () throws(InterlockError) in try LiveView("locks", cursor: "-1") }.contains("cursor"))
        #expect(message { () throws(InterlockError) in try LiveView("services", from: "99999999999") }.contains("from"))
        let long = String(repeating: "a", count: 257)
        #expect(message { () throws(InterlockError) in try LiveView("locks", search: long) }.contains("256 bytes"))
    }

    @Test("Names that only look alike make different views")
    func namesThatOnlyLookAlikeMakeDifferentViews() throws {
        let composed = try LiveView("lock", name: "caf\u{E9}")
        let decomposed = try LiveView("lock", name: "cafe\u{301}")
        #expect(composed != decomposed)
        #expect(composed.parts != decomposed.parts)
    }

    @Test("Part of a name is matched byte for byte")
    func partOfNameIsMatchedByteForByte() {
        #expect(ExactText("").isPart(of: "orders"))
        #expect(ExactText("ord").isPart(of: "orders"))
        #expect(ExactText("ers").isPart(of: "orders"))
        #expect(ExactText("*").isPart(of: "a*b"))
        #expect(!ExactText("Ord").isPart(of: "orders"))
        #expect(!ExactText("orders/").isPart(of: "orders"))
        #expect(!ExactText("\u{E9}").isPart(of: "cafe\u{301}"))
    }

    // MARK: Rates

    private static func list(_ value: JSONValue?) -> [Int64] {
        guard case .array(let list) = value else { return [] }
        return list.compactMap { if case .integer(let number) = $0 { number } else { nil } }
    }

    private static func counts(granted: Int64, taken: Int64, of service: String = "search") -> DecisionCounts {
        var counts = DecisionCounts(locksGranted: granted, locksRefused: 0, locksReleased: 0, redisCommands: 0)
        counts.serviceTotals.callsTaken = taken
        counts.services[service] = counts.serviceTotals
        return counts
    }

    @Test("Decisions are counted per second, newest last, and the oldest seconds are dropped")
    func decisionsAreCountedPerSecond() {
        let rates = RateHistory()
        for second in 1...(RateHistory.retentionSeconds + 5) {
            rates.sample(Self.counts(granted: Int64(second * 10), taken: Int64(second)))
        }
        let locksGranted = Self.list(rates.fields["locks_granted"])
        #expect(locksGranted == Array(repeating: 10, count: RateHistory.retentionSeconds))
        rates.sample(Self.counts(granted: Int64((RateHistory.retentionSeconds + 5) * 10) + 3, taken: 400))
        #expect(Self.list(rates.fields["locks_granted"]).suffix(2) == [10, 3])
        let callsTaken = Self.list(rates.fields(ofService: "search")["calls_taken"])
        #expect(callsTaken.count == RateHistory.serviceRetentionSeconds)
        #expect(callsTaken.suffix(2) == [1, 95])
        #expect(rates.lastMinute(ofService: "search")["calls_taken"] == .integer(59 + 95))
    }

    @Test("A restarted counter starts at zero, and a removed one is forgotten")
    func restartedCounterStartsAtZero() {
        let rates = RateHistory()
        rates.sample(Self.counts(granted: 100, taken: 100))
        rates.sample(Self.counts(granted: 40, taken: 40))
        #expect(Self.list(rates.fields["locks_granted"]) == [100, 0])
        rates.sample(Self.counts(granted: 40, taken: 0, of: "mail"))
        #expect(Self.list(rates.fields(ofService: "search")["calls_taken"]).isEmpty)
        #expect(rates.lastMinute(ofService: "search")["calls_taken"] == .integer(0))
    }

    @Test("Services whose limits refused calls in the last minute are listed by refusals, highest first")
    func limitedServices() {
        func counts(_ limited: [String: Int64]) -> DecisionCounts {
            var counts = DecisionCounts(locksGranted: 0, locksRefused: 0, locksReleased: 0, redisCommands: 0)
            for (service, number) in limited {
                var serviceCounts = ServiceCounts()
                (serviceCounts.callsTaken, serviceCounts.callsLimited) = (7, number)
                counts.services[service] = serviceCounts
            }
            return counts
        }
        let rates = RateHistory()
        rates.sample(counts(["search": 2, "mail": 5, "catalog": 0]))
        func row(_ service: String, _ limited: Int64) -> [String: JSONValue] {
            ["service": .string(service), "calls_limited": .integer(limited), "calls_taken": .integer(7)]
        }
        #expect(rates.limitedServices(maximum: 10) == [row("mail", 5), row("search", 2)])
        #expect(rates.limitedServices(maximum: 1) == [row("mail", 5)])
        for _ in 0..<RateHistory.serviceRetentionSeconds { rates.sample(counts(["search": 2, "mail": 5, "catalog": 0])) }
        #expect(rates.limitedServices(maximum: 10).isEmpty)
    }

    // MARK: Events

    private static func change(_ service: String, generation: Int64) throws -> (EventMessage, InterlockEvent<EventPayload>) {
        let json =
            #"{"v":1,"type":"breaker","origin":"a","db":0,"service":"\#(service)","state":"open","generation":\#(generation),"at_ms":5}"#
        let received = try #require(ReceivedEvent(Array(json.utf8)))
        return (received.message, try #require(received.event))
    }

    private static func json(_ events: EventHistory) -> String {
        var buffer = ByteBuffer()
        events.write(into: &buffer)
        return String(buffer: buffer)
    }

    @Test("The newest hundred events and twenty changes of each configured breaker are kept")
    func eventHistory() throws {
        let events = EventHistory()
        #expect(Self.json(events) == #"{"events":[],"last":0}"#)
        for number in 1...150 {
            let (message, event) = try Self.change(
                number.isMultiple(of: 2) ? "search" : "unconfigured", generation: Int64(number))
            events.record(message, event) { $0 == "search" }
        }
        #expect(events.lastNumber == 150)
        #expect(Self.json(events).components(of: "\"generation\"") == EventHistory.capacity)
        #expect(Self.json(events).hasPrefix(#"{"events":[{"at_ms":5,"db":0,"generation":150,"origin":"a","service":"search""#))
        let changes = events.changes(ofService: "search")
        #expect(changes.map(\.breaker.generation) == Array(stride(from: 150, to: 110, by: -2)))
        #expect(events.changes(ofService: "unconfigured").isEmpty)
        events.removeAll { _ in true }
        #expect(events.changes(ofService: "search").isEmpty)
    }

    @Test("A limit reached every second does not displace other events")
    func chattyLimit() throws {
        let events = EventHistory()
        func receive(_ fields: String) throws {
            let received = try #require(ReceivedEvent(Array((#"{"v":1,"origin":"a","db":0,"# + fields + "}").utf8)))
            events.record(received.message, received.event) { _ in true }
        }
        try receive(#""type":"lock.broken","lock":"orders","by":"me","at_ms":1"#)
        try receive(#""type":"breaker","service":"search","state":"open","generation":7,"at_ms":2"#)
        try receive(#""type":"limit.reached","service":"slow","limit":"1d","used":5,"capacity":5,"at_ms":3"#)
        for second in 0..<200 {
            for kind in ["near", "reached"] {
                try receive(
                    #""type":"limit.\#(kind)","service":"fast","limit":"1s","subject":"s\#(second)","used":4,"capacity":5,"at_ms":\#(second + 4)"#
                )
            }
        }
        let json = Self.json(events)
        #expect(
            json.contains("lock.broken") && json.contains(#""generation":7"#) && json.contains(#""1d""#), "\(json.prefix(300))")
        #expect(json.components(of: "\"at_ms\"") == EventHistory.capacity)
        // The history is newest first and includes the last event.
        #expect(json.hasPrefix(#"{"events":[{"at_ms":203"#))
    }

    @Test("An event that is invalid JSON does not corrupt the others")
    func invalidEvents() throws {
        let events = EventHistory()
        let start = #"{"v":1,"type":"x.new","origin":"o","db":0,"at_ms":1"#
        for end in [#","n":"good"}"#, ",}", #","n":01}"#, #","x":"\q"}"#, #","x":"# + String(repeating: "[", count: 300)] {
            // The channel's reader already drops text that is not JSON.
            guard let received = ReceivedEvent(Array((start + end).utf8)) else { continue }
            events.record(received.message, received.event) { _ in false }
        }
        let json = Self.json(events)
        #expect(json.contains(#""n":"good""#))
        #expect(!json.contains(",}") && !json.contains("01") && !json.contains("\\q") && !json.contains("[[[["), "\(json)")
        // Events that are nested too deeply take up no room in the history.
        let deep = start + #","x":"# + String(repeating: "[", count: 20) + String(repeating: "]", count: 20) + "}"
        for number in 1...60 {
            let (message, event) = try Self.change("search", generation: Int64(number))
            events.record(message, event) { _ in false }
            events.record(EventMessage(type: "x.new", json: deep), nil) { _ in false }
        }
        let all = Self.json(events)
        #expect(all.contains(#""n":"good""#))
    }

    // MARK: Local changes since a page was read

    private static func row(
        _ name: String, holders: Int64, label: String? = nil, fence: Int64? = 0, waiters: Int64 = 0, remaining: Int64 = 500
    ) -> JSONValue {
        .object([
            "name": .string(name), "holders": .integer(holders), "label": label.map { .string($0) } ?? .null,
            "ttl_ms": .integer(remaining), "at_ms": .integer(1000), "here": .bool(false), "waiters": .integer(waiters),
            "fence": fence.map { .integer($0) } ?? .null,
        ])
    }

    /// Returns a page that was read from 1000 to 1010.
    private static func page(_ rows: [JSONValue]) -> LiveReading {
        let topic = LiveTopic(.events, now: Instant(nanoseconds: 0))
        var wallMilliseconds: Int64 = 990
        let time: () -> Int64 = {
            wallMilliseconds += 10
            return wallMilliseconds
        }
        topic.readIfDue(now: Instant(nanoseconds: 0), wallMilliseconds: time, budget: ReadBudget()) { done in
            done(.success(["locks": .array(rows), "cursor": .string("0"), "complete": .bool(true)]), 1, 1)
        }
        return topic.reading
    }

    private static func grant(
        _ name: String, label: String = "new", mode: LockMode = .exclusive, fence: Int64? = nil, at: Int64, until: Int64? = nil,
        ended: Int64? = nil
    ) -> GrantRecord {
        GrantRecord(
            name: name, label: label, mode: mode, fence: fence ?? at, grantedMilliseconds: at, waitedMilliseconds: 0,
            promisedMilliseconds: until ?? at + 5000, endedMilliseconds: ended, end: ended.map { _ in .released })
    }

    private static func rows(_ page: [String: JSONValue]) -> [[String: JSONValue]] {
        guard case .array(let rows) = page["locks"] else { return [] }
        return rows.compactMap { if case .object(let row) = $0 { row } else { nil } }
    }

    private static func overlaidRows(_ rows: [JSONValue], _ grants: [GrantRecord]) -> [[String: JSONValue]] {
        Self.rows(LockPages.fields(Self.page(rows), grants, search: ExactText(""), isFirst: true))
    }

    @Test("A lock granted, released or added since the page was read is shown up to date")
    func changedLockIsShownUpToDate() {
        let rows = Self.overlaidRows(
            [Self.row("a", holders: 1, label: "old", fence: 900), Self.row("b", holders: 1, label: "old", fence: 900)],
            [
                Self.grant("c", at: 1300), Self.grant("gone", at: 1200, ended: 1250), Self.grant("a", at: 1100),
                Self.grant("b", label: "old", at: 900, ended: 1050), Self.grant("older", at: 500),
            ])
        #expect(rows.map { $0["name"] } == [.string("a"), .string("b"), .string("c"), .string("older")])
        #expect(rows[0]["label"] == .string("new"))
        #expect(rows[0]["ttl_ms"] == .integer(5000))
        #expect(rows[0]["at_ms"] == .integer(1100))
        #expect(rows[1]["holders"] == .integer(0))
        #expect(rows[1]["label"] == .null)
        #expect(rows[1]["leases"] == .array([]))
        #expect(rows.allSatisfy { $0["here"] == .bool(true) })
    }

    @Test("A newer grant from Redis replaces an older one of this sidecar")
    func overlayIsOlder() {
        let row = Self.row("a", holders: 1, label: "elsewhere", fence: 2000)
        for grant in [Self.grant("a", at: 1005), Self.grant("a", at: 900, ended: 1005)] {
            let rows = Self.overlaidRows([row], [grant])
            #expect(rows[0]["label"] == .string("elsewhere"))
            #expect(rows[0]["here"] == .bool(false))
        }
    }

    @Test("A lock that other software holds without a fence is not shown as free")
    func overlayOfOtherSoftware() {
        let row = Self.row("a", holders: 1, label: "other-software", fence: nil)
        let rows = Self.overlaidRows([row], [Self.grant("a", at: 300, ended: 400)])
        #expect(rows[0]["holders"] == .integer(1))
        #expect(rows[0]["label"] == .string("other-software"))
        #expect(rows[0]["here"] == .bool(false))
    }

    @Test("A key may have an arbitrarily large time to live", arguments: [LockMode.exclusive, .shared])
    func overlayOfLongestTTL(mode: LockMode) {
        let row = Self.row("a", holders: 1, label: "new", fence: 900, remaining: .max)
        let rows = Self.overlaidRows([row], [Self.grant("a", mode: mode, at: 1100)])
        #expect(rows[0]["label"] == .string("new"))
    }

    @Test("A lease extended here is shown with its new expiry")
    func overlayRenewed() {
        let row = Self.row("a", holders: 1, label: "new", fence: 900)
        var rows = Self.overlaidRows([row], [Self.grant("a", at: 900, until: 9000)])
        #expect(rows[0]["at_ms"] == .integer(900))
        #expect(rows[0]["ttl_ms"] == .integer(8100))
        // If the page was read after the last renewal, its values are at least as recent.
        rows = Self.overlaidRows([row], [Self.grant("a", at: 900, until: 1490)])
        #expect(rows[0]["here"] == .bool(false))
    }

    @Test("Locks outside the search or the page are not added")
    func overlayElsewhere() {
        let reading = Self.page([Self.row("a", holders: 1)])
        let grants = [Self.grant("b", at: 1300)]
        #expect(Self.rows(LockPages.fields(reading, grants, search: ExactText("a"), isFirst: true)).count == 1)
        #expect(Self.rows(LockPages.fields(reading, grants, search: ExactText(""), isFirst: false)).count == 1)
        #expect(Self.rows(LockPages.fields(reading, grants, search: ExactText(""), isFirst: true)).count == 2)
    }

    @Test("Readers that acquired or released the lock since the page was read are counted")
    func overlayShared() {
        let rows = Self.overlaidRows(
            [Self.row("a", holders: 3, label: "old")],
            [
                Self.grant("a", mode: .shared, at: 1200), Self.grant("a", mode: .shared, at: 1100),
                // The lease was granted during the reading, so the page may already include it.
                Self.grant("a", mode: .shared, at: 1005), Self.grant("a", label: "old", mode: .shared, at: 900, ended: 1050),
                Self.grant("a", mode: .shared, at: 900, ended: 1005),
            ])
        #expect(rows[0]["holders"] == .integer(4))
        #expect(rows[0]["at_ms"] == .integer(1200))
        #expect(rows[0]["ttl_ms"] == .integer(5000))
    }

    @Test("A released shared lease does not change the remaining time of the others")
    func overlaySharedGone() {
        let rows = Self.overlaidRows(
            [Self.row("a", holders: 2, label: "other")], [Self.grant("a", mode: .shared, at: 900, ended: 1200)])
        #expect(rows[0]["holders"] == .integer(1))
        #expect(rows[0]["at_ms"] == .integer(1000))
        #expect(rows[0]["ttl_ms"] == .integer(500))
    }

    // MARK: Read budget

    @Test("A view over its Redis budget is postponed and shows the last known state")
    func budget() {
        let budget = ReadBudget()
        func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }
        #expect(budget.reserve(now: at(0), expecting: 1))
        budget.correct(20, expected: 1)
        #expect(!budget.reserve(now: at(1900), expecting: 1))
        let topic = LiveTopic(.fleet, now: at(1900))
        topic.readIfDue(now: at(1900), wallMilliseconds: { 1 }, budget: budget) { _ in Issue.record("the view reads Redis") }
        #expect(!topic.reading.isDone)
        #expect(topic.reading.isShowable)
        #expect(topic.reading.fields(empty: [:])["failure"] != .null)
        topic.readIfDue(now: at(2300), wallMilliseconds: { 1 }, budget: budget) { $0(.success(["a": .bool(true)]), 100, 1) }
        #expect(topic.reading.fields(empty: [:]) == ["a": .bool(true), "at_ms": .integer(1), "failure": .null])
    }

    @Test("All views send at most 25 commands a second to Redis over a minute, and one view at most 5")
    func budgetOfMany() {
        func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }
        for (viewers, rate) in [(1, 5), (64, 25)] {
            for cost in [1, 3, 32] {
                let budget = ReadBudget()
                budget.consoleCount = viewers
                var sent = 0
                for tick in 0..<600 {
                    // All reads begin before any has ended.
                    let begun = (0..<viewers).count { _ in budget.reserve(now: at(3000 + Int64(tick) * 100), expecting: cost) }
                    for _ in 0..<begun { budget.correct(cost, expected: cost) }
                    sent += begun * cost
                }
                // The last read may cost more than the remaining budget.
                #expect(sent <= 60 * rate + 10 + cost, "\(viewers) viewers, \(cost) commands per read")
                #expect(sent >= 60 * rate, "\(viewers) viewers, \(cost) commands per read")
            }
        }
    }

    /// Simulates `count` consoles with one topic each; a reading takes `readingTicks` ticks and `cost` commands.
    /// - Returns: the commands begun in each tick, and the ticks in which each topic was read.
    private static func simulateConsoles(
        at count: Int, cost: Int, ticks: Int, readingTicks: Int = 1
    ) throws -> (sent: [Int], reads: [LivePart: [Int]]) {
        let budget = ReadBudget()
        budget.consoleCount = count
        var now = Instant(nanoseconds: 3_000_000_000)
        let topics = try (0..<count).map { LiveTopic(.lock(try ResourceName("lock-\($0)")), now: now) }
        var sentCounts: [Int] = []
        var reads: [LivePart: [Int]] = [:]
        var inFlight: [(tick: Int, done: () -> Void)] = []
        for tick in 0..<ticks {
            for reading in inFlight where reading.tick == tick { reading.done() }
            var begun = 0
            for topic in LiveTopic.sortedByDueTime(topics) {
                topic.readIfDue(now: now, wallMilliseconds: { 1 }, budget: budget, maximum: cost) { done in
                    begun += cost
                    reads[topic.part, default: []].append(tick)
                    inFlight.append((tick + readingTicks, { done(.success([:]), 500, cost) }))
                }
            }
            sentCounts.append(begun)
            now = now.advanced(byMilliseconds: 100)
        }
        return (sentCounts, reads)
    }

    @Test("Each of many views is served in turn")
    func eachOfManyViewsIsServedInTurn() throws {
        let (_, reads) = try Self.simulateConsoles(at: 60, cost: 1, ticks: 100)
        #expect(reads.count == 60)
        // Sixty topics at 25 reads a second take 24 ticks, plus one for rounding.
        var maximumInterval = 0
        for ticks in reads.values {
            for (last, next) in zip(ticks, ticks.dropFirst()) { maximumInterval = max(maximumInterval, next - last) }
        }
        #expect(maximumInterval <= 26)
    }

    @Test("Expensive views start one after another")
    func costs() throws {
        let (sent, reads) = try Self.simulateConsoles(at: 10, cost: 32, ticks: 200, readingTicks: 20)
        #expect(sent.max() == 32)
        // Twenty seconds at 25 commands a second, plus the initial burst and a last read that may exceed the budget.
        let all: Int = sent.reduce(0, +)
        #expect(all <= 542)
        #expect(reads.count == 10)
    }
}

extension String {
    /// Returns the number of occurrences of a text.
    fileprivate func components(of part: String) -> Int { ranges(of: part).count }
}

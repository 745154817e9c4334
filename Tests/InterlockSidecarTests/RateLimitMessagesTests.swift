import EnvoyMessages
import InterlockCore
import NIOCore
import SwiftProtobuf
import Testing

@testable import SidecarListeners
@testable import SidecarSettings

/// The hand-written readers and writers agree with the generated types.
@Suite("Messages of the rate limit service")
struct RateLimitMessagesTests {
    typealias Request = Envoy_Service_Ratelimit_V3_RateLimitRequest
    typealias Response = Envoy_Service_Ratelimit_V3_RateLimitResponse

    private static let rules = DescriptorIndex([
        rule("plain", name: nil), rule("named", name: "a name"), rule(String(repeating: "long", count: 60), name: nil),
    ]).rules

    private static func rule(_ key: String, name: String?) -> DescriptorRule {
        var rule = DescriptorRule(key: key)
        rule.name = name
        rule.limit = .rate(LimitDefinition(name: "default", limit: 5, window: .seconds(1)), isAligned: false)
        return rule
    }

    @Test(
        "A plain request is decoded like the generated type, even if bytes are corrupted",
        arguments: 0..<20 as Range<UInt64>)
    func plainRequestIsDecodedLikeGeneratedType(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var plain = 0
        for _ in 0..<200 {
            let request = Self.request(&random)
            var bytes: [UInt8] = try request.serializedBytes()
            let query = RateLimitQuery(plain: ByteBuffer(bytes: bytes))
            let isPlain = request.descriptors.allSatisfy { !$0.hasLimit && !$0.hasHitsAddend && !$0.isNegativeHits }
            #expect((query != nil) == (isPlain && !request.domain.isEmpty && !request.descriptors.isEmpty))
            if let query {
                plain += 1
                #expect(query == Self.query(request))
            }
            guard !bytes.isEmpty else { continue }
            for _ in 0..<3 {
                switch random.below(3) {
                case 0: bytes[random.below(bytes.count)] = UInt8(truncatingIfNeeded: random.next())
                case 1: bytes.append(UInt8(truncatingIfNeeded: random.next()))
                default: bytes.removeLast()
                }
                guard !bytes.isEmpty, let other = RateLimitQuery(plain: ByteBuffer(bytes: bytes)) else { break }
                #expect(try other == Self.query(Request(serializedBytes: bytes)))
            }
        }
        #expect(plain > 20)
    }

    @Test("The plain decoder declines a request with too many entries or descriptors")
    func largeQueries() throws {
        var request = Request()
        request.domain = "edge"
        request.descriptors = [
            .with { $0.entries = Array(repeating: .with { $0.key = "k" }, count: DescriptorEntry.maximumCount) }
        ]
        #expect(try RateLimitQuery(plain: ByteBuffer(bytes: request.serializedBytes() as [UInt8])) != nil)
        request.descriptors[0].entries.append(.init())
        #expect(try RateLimitQuery(plain: ByteBuffer(bytes: request.serializedBytes() as [UInt8])) == nil)
        request.descriptors = Array(repeating: .init(), count: RateLimitService.maximumDescriptors)
        #expect(try RateLimitQuery(plain: ByteBuffer(bytes: request.serializedBytes() as [UInt8])) != nil)
        request.descriptors.append(.init())
        #expect(try RateLimitQuery(plain: ByteBuffer(bytes: request.serializedBytes() as [UInt8])) == nil)
        // The value has 32 bits; the generated type drops any higher bits.
        #expect(RateLimitQuery(plain: ByteBuffer(bytes: [0x0A, 1, 0x65, 0x12, 0, 0x18, 5]))?.requested[0].cost == 5)
        #expect(RateLimitQuery(plain: ByteBuffer(bytes: [0x0A, 1, 0x65, 0x12, 0, 0x18, 0x85, 0x80, 0x80, 0x80, 0x10])) == nil)
    }

    @Test("Fields after unknown groups count as the generated type counts them")
    func groups() throws {
        for group in [[0x7B, 0x7C], [0x7B, 0x7B, 0x0A, 1, 0, 0x7C, 8, 1, 0x7C]] as [[UInt8]] {
            let bytes = group + [0x12, 0]
            #expect(try Request(serializedBytes: bytes).descriptors.count == 1)
            #expect(ByteBuffer(bytes: bytes).countOfProtobufFields(2) == 1)
        }
        #expect(ByteBuffer(repeating: 0x7B, count: 1 << 20).countOfProtobufFields(2) == 0)
    }

    @Test("A response is encoded byte for byte like the generated type", arguments: 0..<20 as Range<UInt64>)
    func responseIsEncodedByteForByteLikeGeneratedType(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for _ in 0..<200 {
            let statuses = (0..<random.below(4)).map { _ in Self.status(&random) }
            let decision = RequestDecision(isOverLimit: statuses.contains(where: \.isOverLimit), statuses: statuses)
            var buffer = ByteBuffer()
            RateLimitResponse(decision).write(to: &buffer)
            let bytes = Array(buffer.readableBytesView)
            let response = try Response(serializedBytes: bytes)
            #expect(try response.serializedBytes() as [UInt8] == bytes)
            #expect(response.overallCode == (decision.isOverLimit ? .overLimit : .ok))
            #expect(response.statuses.count == statuses.count)
            for (decoded, status) in zip(response.statuses, statuses) { Self.check(decoded, status) }
            let fields = response.responseHeadersToAdd.map(\.key)
            let cause = decision.isOverLimit ? ["Interlock-Cause"] : []
            #expect(fields == cause + (decision.binding == nil ? [] : ["RateLimit", "RateLimit-Policy"]))
        }
    }

    @Test("The header fields of a response name the binding limit")
    func fields() throws {
        let status = DescriptorStatus(
            isOverLimit: true, bound: .limited(limit: 20, window: .seconds(60)), rule: Self.rules[1], remaining: 3,
            resetAfterMilliseconds: 1500)
        let other = DescriptorStatus(
            isOverLimit: false, bound: .limited(limit: 20, window: .seconds(60)), rule: Self.rules[0], remaining: 1)
        #expect(try Self.fields([other, status]) == [#""a name";r=3;t=2"#, #""a name";q=20;w=60"#])
        #expect(try Self.fields([other]) == [#""plain";r=1;t=0"#, #""plain";q=20;w=60"#])
        // A refusal states when one request fits again, not when the whole quota is restored.
        var early = status
        early.retryAfterMilliseconds = 200
        #expect(try Self.fields([other, early]) == [#""a name";r=3;t=1"#, #""a name";q=20;w=60"#])
    }

    @Test("A refusal states its reason, and omits the remainder when Redis is unreachable")
    func refusalStatesItsReason() throws {
        let status = DescriptorStatus(isOverLimit: true, bound: .limited(limit: 5, window: .seconds(1)), rule: Self.rules[0])
        for (cause, count) in [(RequestDecision.Cause.limit, 3), (.local, 3), (.redis, 1)] {
            var buffer = ByteBuffer()
            RateLimitResponse(RequestDecision(isOverLimit: true, statuses: [status], cause: cause)).write(to: &buffer)
            let response = try Response(serializedBytes: Array(buffer.readableBytesView))
            #expect(response.statuses[0].code == .overLimit && response.statuses[0].hasCurrentLimit == (cause != .redis))
            let fields = response.responseHeadersToAdd
            #expect(fields.first?.key == "Interlock-Cause")
            #expect(fields.first?.value == cause.rawValue)
            #expect(fields.count == count)
        }
    }

    @Test("A shadow limit appears neither in the header fields nor as Envoy's current limit")
    func shadows() throws {
        var shadow = Self.rule("shadow", name: nil)
        shadow.isShadow = true
        let rule = DescriptorIndex([shadow]).rules[0]
        var full = DescriptorStatus(
            isOverLimit: false, bound: .limited(limit: 5, window: .seconds(3600)), rule: rule, resetAfterMilliseconds: 3_600_000)
        full.isShadowRefusal = true
        let real = DescriptorStatus(
            isOverLimit: false, bound: .limited(limit: 20, window: .seconds(60)), rule: Self.rules[0], remaining: 7,
            resetAfterMilliseconds: 1000)
        #expect(try Self.fields([full, real]) == [#""plain";r=7;t=1"#, #""plain";q=20;w=60"#])
        #expect(try Self.fields([full]) == [])
        var buffer = ByteBuffer()
        RateLimitResponse(RequestDecision(isOverLimit: false, statuses: [full])).write(to: &buffer)
        let decoded = try Response(serializedBytes: Array(buffer.readableBytesView)).statuses[0]
        #expect(decoded.code == .ok && !decoded.hasCurrentLimit)
    }

    @Test(
        "A name that is invalid in a header field is escaped",
        arguments: [
            (#"a"b\é"#, #"a\"b\\%C3%A9"#), ("\n\u{7F}", "%0A%7F"),
            (String(repeating: "long", count: 60), String(repeating: "long", count: 60)),
        ])
    func nameThatIsInvalidInHeaderFieldIsEscaped(name: String, written: String) throws {
        let rule = DescriptorIndex([Self.rule("key", name: name)]).rules[0]
        let status = DescriptorStatus(
            isOverLimit: false, bound: .limited(limit: 5, window: .seconds(1)), rule: rule, remaining: 4)
        #expect(try Self.fields([status]) == ["\"\(written)\";r=4;t=0", "\"\(written)\";q=5;w=1"])
    }

    @Test("A limit from the request's override is marked as such")
    func requestLimit() throws {
        let status = DescriptorStatus(isOverLimit: false, bound: .limited(limit: 5, window: .seconds(1)), rule: nil, remaining: 4)
        #expect(try Self.fields([status])[0] == #""request";r=4;t=0"#)
    }

    @Test(
        "Windows are reported in the published units",
        arguments: [
            (1, Response.RateLimit.Unit.second), (60, .minute), (3600, .hour), (86_400, .day), (604_800, .week),
            (2_592_000, .month),
            (31_536_000, .year), (90, .unknown),
        ])
    func windowsAreReportedInPublishedUnits(seconds: Int, unit: Response.RateLimit.Unit) {
        #expect(Response.RateLimit.Unit(.seconds(seconds)) == unit)
    }

    /// Returns the values of the response's header fields.
    private static func fields(_ statuses: [DescriptorStatus]) throws -> [String] {
        var buffer = ByteBuffer()
        RateLimitResponse(RequestDecision(isOverLimit: false, statuses: statuses)).write(to: &buffer)
        return try Response(serializedBytes: Array(buffer.readableBytesView)).responseHeadersToAdd.map(\.value)
    }

    // MARK: Random messages

    private static func request(_ random: inout SeededRandom) -> Request {
        var request = Request()
        if random.happens(0.95) { request.domain = randomText(&random) }
        request.descriptors = (0..<random.below(4)).map { _ in
            .with { descriptor in
                descriptor.entries = (0..<random.below(4)).map { _ in
                    .with {
                        $0.key = randomText(&random)
                        $0.value = randomText(&random)
                    }
                }
                if random.happens(0.05) { descriptor.limit.requestsPerUnit = 5 }
                if random.happens(0.05) { descriptor.hitsAddend = .init(7) }
                if random.happens(0.05) { descriptor.isNegativeHits = true }
            }
        }
        if random.happens(0.3) { request.hitsAddend = UInt32(random.below(300)) }
        return request
    }

    /// Returns a nonempty text.
    private static func randomText(_ random: inout SeededRandom) -> String {
        String(repeating: ["x", "é", "\u{1F511}", "="][random.below(4)], count: 1 + random.below(random.happens(0.1) ? 200 : 9))
    }

    /// Returns the query that the generated type decodes, for plain requests only.
    private static func query(_ request: Request) -> RateLimitQuery {
        RateLimitQuery(
            domain: request.domain,
            requested: request.descriptors.compactMap { RequestedDescriptor($0, hits: request.hitsAddend) })
    }

    private static func status(_ random: inout SeededRandom) -> DescriptorStatus {
        let windows: [Duration] = RateLimitUnit.allCases.map(\.window) + [.seconds(90)]
        let bounds: [DescriptorStatus.Bound] = [
            .none, .unlimited, .limited(limit: 0, window: .seconds(1)), .limited(limit: .max, window: .seconds(3600)),
            .limited(limit: Int64(random.below(100_000)), window: windows[random.below(windows.count)]),
        ]
        var status = DescriptorStatus(
            isOverLimit: random.happens(0.3), bound: bounds[random.below(bounds.count)],
            rule: random.happens(0.8) ? rules[random.below(rules.count)] : nil)
        if case .limited = status.bound {
            status.remaining = random.happens(0.1) ? .max : Int64(random.below(100_000))
            status.resetAfterMilliseconds = Int64(random.below(5_000_000))
        }
        return status
    }

    private static func check(_ decoded: Response.DescriptorStatus, _ status: DescriptorStatus) {
        #expect(decoded.code == (status.isOverLimit ? .overLimit : .ok))
        guard case .limited(let limit, let window) = status.bound else {
            #expect(!decoded.hasCurrentLimit && !decoded.hasDurationUntilReset)
            #expect(decoded.limitRemaining == (status.bound == .unlimited ? .max : 0))
            return
        }
        #expect(decoded.currentLimit.requestsPerUnit == UInt32(clamping: limit))
        #expect(decoded.currentLimit.unit == .init(window))
        #expect(decoded.currentLimit.name == status.rule.map { $0.rule.name ?? $0.path } ?? "request")
        #expect(decoded.limitRemaining == UInt32(clamping: status.remaining))
        #expect(
            decoded.durationUntilReset.seconds * 1000 + Int64(decoded.durationUntilReset.nanos / 1_000_000)
                == status.resetAfterMilliseconds)
    }
}

extension SeededRandom {
    fileprivate mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
}

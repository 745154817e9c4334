import Testing

@testable import RedisClient

@Suite("Reply parser: rejected input")
struct ReplyLimitsTests {
    @Test(
        "A header with an excessive length is refused before memory is reserved",
        arguments: [
            "$600000000\r\n", "$16777217\r\n", "$9223372036854775807\r\n", "$9999999999999999999\r\n",
            "*1000000000\r\n", "*1048577\r\n", "*9223372036854775807\r\n", "*9999999999999999999\r\n",
        ]
    )
    func oversizedHeaders(stream: String) {
        #expect(Parsing(stream).violation?.code == .protocolViolation)
        #expect(Parsing(bytewise: Array(stream.utf8)).violation?.code == .protocolViolation)
    }

    @Test(
        "A negative length other than -1 is refused",
        arguments: ["$-2\r\n", "*-2\r\n", "$-9223372036854775808\r\n", "*-9223372036854775808\r\n", "$-9999999999999999999\r\n"]
    )
    func negativeLengths(stream: String) {
        #expect(Parsing(stream).violation?.code == .protocolViolation)
    }

    @Test(
        "A header that is not a number is refused",
        arguments: [
            "$\r\n", "*\r\n", ":\r\n", ":-\r\n", "$--1\r\n", "$1 \r\n", "$ 1\r\n", "*a\r\n", ":1.5\r\n", "$+1\r\n", ":+-1\r\n",
            ":123456789012345678901234567890\r\n", "$123456789012345678901234567890\r\n",
            "*000000000000000000000000000001\r\n", ":9223372036854775808\r\n",
        ]
    )
    func nonNumericHeaderIsRefused(stream: String) {
        #expect(Parsing(stream).violation?.code == .protocolViolation)
    }

    @Test(
        "A line that does not end with CR LF is refused",
        arguments: ["+OK\rX", "-ERR\r\r\n", ":1\rX", "$1\r\r\n", "*1\n\r\n"]
    )
    func lineEnds(stream: String) {
        #expect(Parsing(stream).violation?.code == .protocolViolation)
    }

    @Test("A first byte that is not a RESP2 type is refused")
    func firstBytes() {
        let types = Set("+-:$*".utf8)
        for byte in UInt8.min...UInt8.max {
            let violation = Parsing([byte]).violation
            #expect((violation == nil) == types.contains(byte), "byte \(byte)")
        }
    }

    @Test("Arrays nest 7 deep but not 8")
    func arraysNestAtMostSevenDeep() {
        func nested(_ depth: Int) -> String { String(repeating: "*1\r\n", count: depth) + ":1\r\n" }
        var expected = RedisReply.integer(1)
        for _ in 0..<7 { expected = .array([expected]) }
        #expect(Parsing(nested(7)).replies == [expected])
        #expect(Parsing(nested(8)).violation?.code == .protocolViolation)
    }

    @Test("The depth is counted separately for each element")
    func depthOfSiblings() {
        let element = String(repeating: "*1\r\n", count: 6) + ":1\r\n"
        #expect(Parsing("*3\r\n" + element + element + element).replies.count == 1)
    }

    @Test("A line may be as long as the limit and no longer", arguments: ["+", "-"])
    func lineLength(type: String) {
        let limits = ReplyLimits(lineLength: 100)
        func line(_ length: Int) -> String { type + String(repeating: "x", count: length) }
        #expect(Parsing(line(100) + "\r\n", limits: limits).replies.count == 1)
        #expect(Parsing(line(101), limits: limits).violation?.code == .protocolViolation)
    }

    @Test("A bulk string may be as long as the limit and no longer")
    func bulkLength() {
        let limits = ReplyLimits(bulkLength: 3)
        #expect(Parsing("$3\r\nabc\r\n", limits: limits).replies == [.bulk("abc")])
        #expect(Parsing("$4\r\n", limits: limits).violation?.code == .protocolViolation)
    }

    @Test("An array may have as many elements as the limit and no more")
    func arrayLength() {
        let limits = ReplyLimits(arrayLength: 2)
        #expect(Parsing("*2\r\n:1\r\n:2\r\n", limits: limits).replies == [.array([.integer(1), .integer(2)])])
        #expect(Parsing("*3\r\n", limits: limits).violation?.code == .protocolViolation)
    }

    @Test("A whole reply may be as long as the limit and no longer")
    func replyLength() {
        // The reply has 4 + 3 × 11 bytes.
        let stream = "*3\r\n" + String(repeating: "$5\r\nhello\r\n", count: 3)
        #expect(Parsing(stream, limits: ReplyLimits(replyLength: 37)).replies.count == 1)
        #expect(Parsing(stream, limits: ReplyLimits(replyLength: 36)).violation?.code == .protocolViolation)
        #expect(
            Parsing(bytewise: Array(stream.utf8), limits: ReplyLimits(replyLength: 36)).violation?.code == .protocolViolation)
    }

    @Test("The length of one reply does not count towards the next")
    func replyLengthIsPerReply() {
        let stream = String(repeating: "$5\r\nhello\r\n", count: 100)
        #expect(Parsing(stream, limits: ReplyLimits(replyLength: 11)).replies.count == 100)
    }
}

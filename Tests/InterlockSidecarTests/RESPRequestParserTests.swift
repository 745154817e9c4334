import Testing

@testable import SidecarListeners

@Suite("RESP API: the parser")
struct RESPRequestParserTests {
    private func parse(_ text: String) -> (RESPRequestParser.Outcome, [String]) {
        var parser = RESPRequestParser()
        let bytes = Array(text.utf8)
        return bytes.withUnsafeBytes { bytes in
            let outcome = parser.next(bytes)
            guard case .command = outcome else { return (outcome, []) }
            let words = parser.unquoted
            let texts = { (bytes: UnsafeRawBufferPointer) in
                let request = RESPRequest(bytes: bytes, arguments: parser.arguments)
                return (0..<request.count).map(request.text)
            }
            return (outcome, words.isEmpty ? texts(bytes) : words.withUnsafeBytes(texts))
        }
    }

    private func isMalformed(_ text: String) -> Bool {
        if case .malformed = parse(text).0 { true } else { false }
    }

    @Test(
        "A command is read as an array or inline",
        arguments: [
            ("*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n", ["PING", "hi"]), ("PING hi\r\n", ["PING", "hi"]),
            ("  PING\thi \n", ["PING", "hi"]),
            ("*1\r\n$0\r\n\r\n", [""]), ("*1\r\n$4\r\na\r\nb\r\n", ["a\r\nb"]),
        ])
    func commandIsReadAsArrayOrInline(text: String, words: [String]) {
        let (outcome, read) = parse(text)
        #expect(outcome == .command(consumed: text.utf8.count))
        #expect(read == words)
    }

    @Test(
        "An inline command is split as in Redis",
        arguments: [
            (#"AUTH "key""#, ["AUTH", "key"]), (#"ECHO "two words""#, ["ECHO", "two words"]), ("ECHO ''", ["ECHO", ""]),
            (#""PING""#, ["PING"]), (#"ECHO a"b c""#, ["ECHO", "ab c"]),
            (#"ECHO "\x41\x0a\n\r\t\b\a\q\"""#, ["ECHO", "A\n\n\r\t\u{8}\u{7}q\""]),
            (#"ECHO '\n\''"#, ["ECHO", #"\n'"#]), (#"ECHO "\x4""#, ["ECHO", "x4"]), (#"ECHO "\x+1""#, ["ECHO", "x+1"]),
            ("\"\"", [""]),
            (#"ECHO 'a"b' "c'd""#, ["ECHO", #"a"b"#, "c'd"]),
        ])
    func inlineCommandIsSplitAsInRedis(line: String, words: [String]) {
        let (outcome, read) = parse(line + "\r\n")
        #expect(outcome == .command(consumed: line.utf8.count + 2))
        #expect(read == words)
    }

    @Test(
        "An unclosed or misplaced quote is rejected",
        arguments: [#"ECHO "a"#, "ECHO 'a", #"ECHO "a"b"#, "ECHO 'a'b", #"ECHO "a\"#, #"ECHO "a\""#, #"ECHO a""#])
    func unclosedOrMisplacedQuoteIsRejected(line: String) {
        #expect(parse(line + "\r\n").0 == .malformed("unbalanced quotes in request"))
    }

    @Test("A command split anywhere is incomplete until its last byte")
    func splitCommandIsIncompleteUntilLastByte() {
        let command = "*3\r\n$12\r\nLOCK.ACQUIRE\r\n$6\r\norders\r\n$5\r\n30000\r\n"
        for length in 0..<command.utf8.count {
            #expect(parse(String(decoding: command.utf8.prefix(length), as: UTF8.self)).0 == .incomplete, "after \(length) bytes")
        }
    }

    @Test("Empty lines and arrays are skipped", arguments: ["\r\n", "\n", "   \r\n", "*0\r\n", "*-1\r\n"])
    func emptyLinesAndArraysAreSkipped(text: String) {
        #expect(parse(text).0 == .empty(consumed: text.utf8.count))
    }

    @Test(
        "Malformed input is rejected before memory is allocated for it",
        arguments: [
            "*1025\r\n", "*99999999999\r\n", "*x\r\n", "*\r\n", "*1\r\n$65537\r\n", "*1\r\n$-1\r\n", "*1\r\n$x\r\n",
            "*1\r\n:1\r\n",
            "*1\r\n$2\r\nabc\r\n", "*1\r\rn", "*--1\r\n",
        ])
    func junk(text: String) {
        #expect(isMalformed(text))
    }

    @Test("Lines and whole commands have maximum lengths")
    func linesAndWholeCommandsHaveMaximumLengths() {
        #expect(isMalformed(String(repeating: "x", count: RESPRequestParser.maximumLineLength + 2)))
        let bulk = "$65536\r\n" + String(repeating: "x", count: 65536) + "\r\n"
        #expect(isMalformed("*17\r\n" + String(repeating: bulk, count: 17)))
    }

    @Test(
        "A line of HTTP is recognized", arguments: ["GET / HTTP/1.1\r\n", "post /x", "Host: a\r\n", "OPTIONS "])
    func lineOfHTTPIsRecognized(text: String) {
        #expect(parse(text).0 == .http)
    }

    @Test("Random bytes never crash the parser")
    func randomBytes() {
        var generator = SystemRandomNumberGenerator()
        let alphabet = Array("*$\r\n0123456789-abGETx :'\"\\".utf8)
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0...60)).map { _ in alphabet.randomElement(using: &generator) ?? 0 }
            _ = parse(String(decoding: bytes, as: UTF8.self))
        }
    }

    @Test(
        "Numbers are parsed completely or rejected",
        arguments: [
            ("0", Int64?.some(0)), ("-5", -5), ("9223372036854775807", .max), ("-9223372036854775808", .min),
            ("9223372036854775808", nil), ("1.5", nil), ("", nil), ("-", nil), ("1x", nil), (" 1", nil), ("+1", nil),
            ("99999999999999999999999", nil),
        ])
    func numbersAreParsedCompletelyOrRejected(text: String, value: Int64?) {
        let bytes = Array(text.utf8)
        bytes.withUnsafeBytes { bytes in
            #expect(RESPRequest(bytes: bytes, arguments: [0..<bytes.count]).integer(0) == value)
        }
    }

    @Test("Command names ignore case, and a longer name matches no shorter one")
    func commandNamesIgnoreCase() {
        let table = RESPCommandTable()
        #expect(table[CommandKey("lock.acquire")]?.command == .lockAcquire)
        #expect(table[CommandKey("Lock.Acquire")]?.command == .lockAcquire)
        #expect(table[CommandKey("LOCK.ACQUIREXYZAAAAAAAAAA")]?.command == nil)
        for entry in table.all { #expect(table[CommandKey(entry.name)]?.command == entry.command) }
    }
}

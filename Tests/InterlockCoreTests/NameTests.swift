import InterlockCore
import Testing

@Suite("Names, tokens and validity")
struct NameTests {
    @Test(
        "A name has 1 to 256 bytes and no control characters, spaces or braces",
        arguments: [
            ("orders", true), ("a:b/c-d_e.f", true), ("ünïcode-名前", true), (String(repeating: "x", count: 256), true),
            ("", false), (String(repeating: "x", count: 257), false), ("a b", false), ("a\tb", false), ("a\nb", false),
            ("{a}", false), ("a}", false), ("a\u{0}", false), ("a\u{7F}", false), ("a\u{A0}b", false), ("\u{FFFD}", false),
            (String(repeating: "é", count: 128), true), (String(repeating: "é", count: 129), false),
        ])
    func nameRule(text: String, isAccepted: Bool) {
        let isValid = (try? ResourceName(text)) != nil
        #expect(isValid == isAccepted)
    }

    @Test("The error for an invalid name says what is wrong with it")
    func nameViolation() {
        for scalar in ["\u{061C}", "\u{200E}", "\u{202E}", "\u{2066}", "\u{2069}"] as [Unicode.Scalar] {
            #expect(throws: ResourceName.Violation.forbidden(scalar)) { try ResourceName("a\(scalar)b") }
        }
        #expect(throws: ResourceName.Violation.forbidden(" ")) { try ResourceName("a b") }
        let space = ResourceName.Violation.forbidden(" ")
        #expect(space.description.hasPrefix("the name contains a space; it must be 1-256 bytes"))
        #expect(space.message(for: "LABEL").hasPrefix("LABEL: the label contains a space"))
        #expect(space.message(for: "--lock").hasPrefix("--lock: the name contains a space"))
        #expect(space.message(for: "also[0]").hasPrefix("also[0]: the name contains a space"))
    }

    @Test(
        "A refused character has a readable name",
        arguments: [
            (" ", "a space"), ("\t", "a tab"), ("\n", "a line break"), ("\0", "a zero byte"), ("{", "\"{\""),
            ("\u{1B}", "the control character U+001B"), ("\u{A0}", "a no-break space (U+00A0)"),
            ("\u{202E}", "the invisible character U+202E"),
        ] as [(Unicode.Scalar, String)])
    func characterNames(scalar: Unicode.Scalar, name: String) {
        #expect(ResourceName.Violation.forbidden(scalar).description.hasPrefix("the name contains \(name); "))
    }

    @Test("A token starts with its label, and messages show nothing beyond the label")
    func tokenLabel() {
        let token = OwnerToken.make(label: "web-1", random: (0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210))
        #expect(token == "web-1/0123456789abcdeffedcba9876543210")
        #expect(OwnerToken.label(of: token) == "web-1")
        #expect(OwnerToken.label(of: "a/b/" + String(repeating: "0", count: 32)) == "a/b")
    }

    @Test(
        "A token in any other form belongs to other software",
        arguments: [
            "", "x", "job-7", "redsync+base64/AbC==", String(repeating: "0", count: 32), "/short",
            "web/0123456789abcdeffedcba987654321G", "web/0123456789ABCDEFFEDCBA9876543210",
        ])
    func tokenOfOtherSoftware(token: String) {
        #expect(OwnerToken.label(of: token) == OwnerToken.foreignLabel)
    }

    @Test("Validity counts from before the request was sent, minus 1 % and 2 ms")
    func validityStartsBeforeRequestIsSent() {
        let sent = Instant(nanoseconds: 5_000_000_000)
        let now = sent.advanced(byMilliseconds: 100)
        #expect(
            LeaseValidity.remainingMilliseconds(ttlMilliseconds: 30_000, sentAt: sent, now: now) == 30_000 - 302 - 100)
        #expect(LeaseValidity.remainingMilliseconds(ttlMilliseconds: 50, sentAt: sent, now: now) <= 0)
    }

    @Test("The shortest lease is valid for a while after its drift is subtracted")
    func shortestLease() {
        let ttl = LeaseValidity.absoluteMinimumTTLMilliseconds
        #expect(ttl - LeaseValidity.driftMilliseconds(ofTTL: ttl) > 0)
    }

    @Test("Instants saturate, and waits are rounded up")
    func instantsSaturateAndWaitsAreRoundedUp() {
        let zero = Instant(nanoseconds: 0)
        #expect(zero.advanced(byMilliseconds: .max) == .distantFuture)
        #expect(Instant(nanoseconds: 1).millisecondsRoundedUp(since: zero) == 1)
        #expect(Instant(nanoseconds: 1_000_000).millisecondsRoundedUp(since: zero) == 1)
        #expect(Instant(nanoseconds: 1_000_001).millisecondsRoundedUp(since: zero) == 2)
        #expect(zero.millisecondsRoundedUp(since: zero) == 0)
        #expect(Duration.milliseconds(1500).wholeMilliseconds == 1500)
        #expect(Duration.seconds(Int64.max).wholeMilliseconds == .max)
    }
}

@Suite("Excerpts of untrusted text in messages")
struct ExcerptTests {
    @Test(
        "A short text is unchanged, except for control characters",
        arguments: [
            ("", ""), ("orders", "orders"), ("größe 名", "größe 名"),
            ("a\r\nb\u{1B}[31m\u{0}", "a\u{FFFD}\u{FFFD}b\u{FFFD}[31m\u{FFFD}"),
        ])
    func shortTextIsUnchanged(text: String, shown: String) {
        #expect(Excerpt(text).description == shown)
    }

    @Test("A long text is cut and marked as cut")
    func longTextIsCutAndMarkedAsCut() {
        #expect(Excerpt("abcdef", length: 5).description == "abcde…")
        #expect(Excerpt("abcde", length: 5).description == "abcde")
    }

    @Test("A single character of thousands of scalars is cut as well")
    func longCharacter() {
        let text = "e" + String(repeating: "\u{301}", count: 5000)
        #expect(Excerpt(text).description.unicodeScalars.count == Excerpt.length + 1)
    }
}

@Suite("JSON text")
struct JSONTextTests {
    @Test(
        "Quotes, backslashes and terminal control characters are escaped, and everything else is unchanged",
        arguments: [
            ("", #""""#), ("größe 名", #""größe 名""#), (#"a"b\c"#, #""a\"b\\c""#),
            ("\r\n\u{0}\u{1F}", #""\u000d\u000a\u0000\u001f""#),
            ("\u{7F}/\u{9B}", #""\u007f/\u009b""#), ("a\u{202E}b\u{2028}\u{2066}c", #""a\u202eb\u2028\u2066c""#),
            ("\u{A0}e\u{301}👍", "\"\u{A0}e\u{301}👍\""),
        ])
    func quoted(text: String, expected: String) {
        #expect(JSONText.quoted(text) == expected)
        var bytes = Array("before ".utf8)
        JSONText.append(quoted: text, to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == "before " + expected)
    }
}

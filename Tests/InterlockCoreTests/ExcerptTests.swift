import InterlockCore
import Testing

@Suite("Excerpts: what somebody sent, in a message")
struct ExcerptTests {
    @Test(
        "a short text is shown as it is, but for control characters",
        arguments: [
            ("", ""), ("orders", "orders"), ("größe 名", "größe 名"),
            ("a\r\nb\u{1B}[31m\u{0}", "a\u{FFFD}\u{FFFD}b\u{FFFD}[31m\u{FFFD}"),
        ])
    func short(text: String, shown: String) {
        #expect(Excerpt(text).description == shown)
    }

    @Test("a long one is cut, and says so")
    func long() {
        #expect(Excerpt("abcdef", length: 5).description == "abcde…")
        #expect(Excerpt("abcde", length: 5).description == "abcde")
    }

    @Test("a single character that is made of thousands of scalars is cut as well")
    func longCharacter() {
        let text = "e" + String(repeating: "\u{301}", count: 5000)
        #expect(Excerpt(text).description.unicodeScalars.count == Excerpt.length + 1)
    }
}

import Testing

@testable import InterlockLoad

@Suite("Markup")
struct MarkupTests {
    @Test("Untrusted text is escaped in elements and in quoted attributes")
    func escapes() {
        let untrustedText = "<script>\"a\" & 'b'</script>"
        let markup: Markup = "<p title=\"\(untrustedText)\">"
        #expect(markup.text == "<p title=\"&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;\">")
    }

    @Test("Characters that XML does not allow are replaced")
    func replacesForbidden() {
        let markup: Markup = "\("a\u{0}b\u{1B}c\u{FFFF}d\ne")"
        #expect(markup.text == "a\u{FFFD}b\u{FFFD}c\u{FFFD}d\ne")
    }

    @Test("Markup within markup is not escaped again")
    func markupWithinMarkupIsNotEscapedAgain() {
        let inner: Markup = "<b>\("&")</b>"
        let outer: Markup = "<p>\(inner)\([inner, inner])</p>"
        #expect(outer.text == "<p><b>&amp;</b><b>&amp;</b><b>&amp;</b></p>")
    }

    @Test(
        "Coordinates have at most one decimal, and a value that is not a number becomes 0",
        arguments: [
            (1.0, "1"), (0.25, "0.3"), (-0.3, "-0.3"), (-12.96, "-13"), (.nan, "0"), (.infinity, "0"), (-1e300, "0"),
        ])
    func coordinatesHaveAtMostOneDecimal(value: Double, text: String) {
        let markup: Markup = "\(value)"
        #expect(markup.text == text)
    }
}

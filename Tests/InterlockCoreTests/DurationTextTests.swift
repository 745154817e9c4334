import InterlockCore
import Testing

@Suite("Durations as people write them")
struct DurationTextTests {
    @Test(
        "A number and a unit, or several with the longest unit first, are accepted",
        arguments: [
            ("500ms", 500), ("2s", 2000), ("1.5s", 1500), ("1h30m", 5_400_000), ("1d12h", 129_600_000), ("1m30.5s", 90_500),
            ("2h0m5s", 7_205_000), ("0s", 0), ("1s500ms", 1500),
        ])
    func numbersWithUnitsAreAccepted(text: String, milliseconds: Int) throws {
        #expect(try DurationText.parse(text) == .milliseconds(milliseconds))
    }

    @Test(
        "Anything else is refused",
        arguments: [
            "", "h", "1", "1h30", "30m1h", "1h1h", "1.5h30m", "1h 30m", "1h-30m", "1.s", ".5s", "1..5s", "1H", "2 seconds",
            "999999999999999d", "9223372036854775s9999ms", "106751991167d24h24h", "1.0001s",
        ])
    func anythingElseIsRefused(text: String) {
        #expect(throws: InvalidConfigurationValue.self) { try DurationText.parse(text) }
    }

    @Test(
        "A number without a unit is refused with a suggestion",
        arguments: [("30", "did you mean 30s?"), ("2000", "did you mean 2000s or 2000ms?")])
    func numberWithoutUnitIsRefusedWithSuggestion(text: String, question: String) throws {
        let error = try #require(throws: InvalidConfigurationValue.self) { try DurationText.parse(text) }
        #expect("\(error)".hasSuffix(question))
    }
}

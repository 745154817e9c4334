import Testing

@testable import InterlockLoad

@Suite("Readable figures")
struct FigureTests {
    @Test(
        "Counts have digit groups",
        arguments: [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567"), (-12_345, "-12,345")])
    func countsHaveDigitGroups(count: Int, text: String) {
        #expect(Figure.count(count) == text)
    }

    @Test("The largest and the smallest count are readable")
    func extremeCounts() {
        #expect(Figure.count(Int64.min) == "-9,223,372,036,854,775,808")
        #expect(Figure.count(UInt64.max) == "18,446,744,073,709,551,615")
    }

    @Test(
        "Latencies have a suitable unit and three digits",
        arguments: [
            (0, "0µs"), (0.5, "0.50µs"), (9.996, "10.0µs"), (85.2, "85.2µs"), (999.4, "999µs"), (999.9, "1.00ms"),
            (1240, "1.24ms"),
            (999_900, "1.00s"), (12_340_000, "12.3s"), (1_800_000_000, "1,800s"), (.nan, "–"), (.infinity, "–"),
        ])
    func latenciesHaveSuitableUnitAndThreeDigits(microseconds: Double, text: String) {
        #expect(Figure.latency(microseconds: microseconds) == text)
    }

    @Test(
        "Decimals are rounded to a fixed number of digits",
        arguments: [
            (2.006, 2, "2.01"), (0.999, 2, "1.00"), (-0.001, 2, "0.00"), (-1.5, 1, "-1.5"), (1234.5, 0, "1,235"), (.nan, 2, "–"),
        ])
    func decimalsAreRoundedToFixedNumberOfDigits(value: Double, count: Int, text: String) {
        #expect(Figure.decimals(value, count) == text)
    }

    @Test("No number is too large to print", arguments: [1e15, 9.99e14, -1e300, .greatestFiniteMagnitude])
    func hugeNumbers(value: Double) {
        #expect(!Figure.decimals(value, 3).isEmpty)
        #expect(!Figure.short(value).isEmpty)
        #expect(!Figure.moment(seconds: value).isEmpty)
    }

    @Test(
        "Memory is in units of 1024",
        arguments: [(512, "512 B"), (2048, "2.00 KB"), (41_943_040, "40.0 MB"), (3_221_225_472, "3.00 GB")])
    func memoryIsInUnitsOf1024(bytes: Int, text: String) {
        #expect(Figure.memory(bytes: bytes) == text)
    }

    @Test("An axis has short numbers", arguments: [(0, "0"), (0.25, "0.25"), (40, "40"), (12_000, "12k"), (3_500_000, "3.5M")])
    func axisHasShortNumbers(value: Double, text: String) {
        #expect(Figure.short(value) == text)
    }
}

import InterlockCore

import Testing

@testable import InterlockLoad

@Suite("Choosing names")
struct NameSamplerTests {
    private static let draws = 200_000

    private func frequencies(among count: Int, _ skew: NameSkew) -> [Int] {
        let choice = NameSampler(among: count, skew: skew)
        var random = SeededRandom(seed: 42)
        var frequencies = [Int](repeating: 0, count: count)
        for _ in 0..<Self.draws { frequencies[choice.next(using: &random)] += 1 }
        return frequencies
    }

    /// Returns Pearson's chi-squared statistic, which is about the number of names if they are chosen as expected.
    private func deviation(_ frequencies: [Int], expected weights: [Double]) -> Double {
        zip(frequencies, weights).reduce(0) { sum, pair in
            let expected = pair.1 * Double(Self.draws)
            let difference = Double(pair.0) - expected
            return sum + difference * difference / expected
        }
    }

    @Test("Without a skew, all names are chosen equally often")
    func uniform() {
        let weights = [Double](repeating: 0.01, count: 100)
        // One seed in a thousand exceeds 150 with 99 degrees of freedom.
        #expect(deviation(frequencies(among: 100, .uniform), expected: weights) < 150)
    }

    @Test(
        "The frequency of the k-th name is proportional to k to the power of the negated exponent",
        arguments: [0.3, 0.99, 1, 1.1, 2, 3.5])
    func zipf(exponent: Double) {
        let powers = (1...100).map { rank in rank.power(-exponent) }
        let whole = powers.reduce(0, +)
        let weights = powers.map { $0 / whole }
        #expect(deviation(frequencies(among: 100, .zipf(exponent: exponent)), expected: weights) < 150)
    }

    @Test("Ten million names are all in range, and the first half is chosen more often", arguments: [0.5, 1.1])
    func tenMillionNamesAreInRange(exponent: Double) {
        let choice = NameSampler(among: NameSampler.maximumNames, skew: .zipf(exponent: exponent))
        var random = SeededRandom(seed: 7)
        let names = (0..<10_000).map { _ in choice.next(using: &random) }
        #expect(names.allSatisfy { (0..<NameSampler.maximumNames).contains($0) })
        #expect(names.contains { $0 > 1_000_000 })
        #expect(names.count { $0 < NameSampler.maximumNames / 2 } > 6500)
    }

    @Test("A single name is always chosen", arguments: [NameSkew.uniform, .zipf(exponent: 1.1)])
    func singleNameIsAlwaysChosen(skew: NameSkew) {
        let choice = NameSampler(among: 1, skew: skew)
        var random = SeededRandom(seed: 7)
        let names = (0..<100).map { _ in choice.next(using: &random) }
        #expect(names.allSatisfy { $0 == 0 })
    }

    @Test("A seed determines the names")
    func seedDeterminesNames() {
        func names(seed: UInt64) -> [Int] {
            let choice = NameSampler(among: 1000, skew: .zipf(exponent: 1.1))
            var random = SeededRandom(seed: seed)
            return (0..<100).map { _ in choice.next(using: &random) }
        }
        #expect(names(seed: 3) == names(seed: 3))
        #expect(names(seed: 3) != names(seed: 4))
    }
}

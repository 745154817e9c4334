import InterlockCore
import Testing

@Suite("Seeded randomness")
struct SeededRandomTests {
    @Test("A seed produces the numbers of the published generator")
    func knownNumbers() {
        var random = SeededRandom(seed: 1_234_567)
        let numbers = (0..<3).map { _ in random.next() }
        #expect(numbers == [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423])
    }

    @Test("A unit number is in 0 ..< 1")
    func unitNumberIsBelowOne() {
        var random = SeededRandom(seed: 7)
        let units = (0..<1000).map { _ in random.unit() }
        #expect(units.allSatisfy { (0..<1).contains($0) })
    }
}

import Testing

@testable import RedisClient

@Suite("Backoff")
struct BackoffTests {
    private let range = Duration.milliseconds(20)...Duration.milliseconds(1000)

    @Test("The maximum pause doubles with each failure up to the upper bound")
    func growth() {
        var backoff = Backoff(range: range)
        let pauses = (0..<8).map { _ in backoff.next(random: 1) }
        #expect(pauses == [20, 40, 80, 160, 320, 640, 1000, 1000].map { .milliseconds($0) })
    }

    @Test("No pause is shorter than half the lower bound, so that a fleet does not spin")
    func minimumPause() {
        var backoff = Backoff(range: range)
        #expect((0..<8).allSatisfy { _ in backoff.next(random: 0) == .milliseconds(10) })
    }

    @Test("The pause is proportional to the random number")
    func pauseIsProportionalToRandomNumber() {
        var backoff = Backoff(range: range)
        for _ in 0..<3 { _ = backoff.next(random: 1) }
        #expect(backoff.next(random: 0.5) == .milliseconds(80))
    }

    @Test("Thousands of failures cause no overflow")
    func manyFailures() {
        var backoff = Backoff(range: range)
        for _ in 0..<5000 { _ = backoff.next(random: 1) }
        #expect(backoff.next(random: 1) == .milliseconds(1000))
    }

    @Test("A success resets the pause")
    func successResetsPause() {
        var backoff = Backoff(range: range)
        for _ in 0..<5 { _ = backoff.next(random: 1) }
        backoff.reset()
        #expect(backoff.next(random: 1) == .milliseconds(20))
    }
}

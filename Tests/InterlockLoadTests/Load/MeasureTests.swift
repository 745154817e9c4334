@testable import InterlockJudge
import Glibc
import InterlockCore
import Testing

@testable import InterlockLoad

@Suite("Measurements of a run")
struct MeasureTests {
    private static let start = Instant(nanoseconds: 5_000_000_000)

    private static func at(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    private static let fixed = LoadServices(
        rules: [
            ServiceRules(name: "fixed", limits: [LimitRule(algorithm: .fixed, limit: 10, windowMilliseconds: 1000)])
        ],
        takeServiceNumbers: [0])

    @Test("Percentiles have three significant digits")
    func percentilesHaveThreeSignificantDigits() throws {
        var recorder = LatencyRecorder()
        for microseconds in 1...10_000 { recorder.record(nanoseconds: Int64(microseconds) * 1000) }
        let report = try #require(recorder.report)
        #expect(report.count == 10_000)
        #expect(abs(report.p50 / 5000 - 1) < 0.001)
        #expect(abs(report.p99 / 9900 - 1) < 0.001)
        #expect(abs(report.max / 10_000 - 1) < 0.001)
        #expect(abs(report.mean / 5000.5 - 1) < 0.001)
    }

    @Test("The percentile curve rises toward 1")
    func percentileCurveRisesTowardOne() throws {
        var recorder = LatencyRecorder()
        for microseconds in 1...10_000 { recorder.record(nanoseconds: Int64(microseconds) * 1000) }
        let points = try #require(recorder.report?.percentiles)
        #expect(points.count > 20)
        #expect(zip(points, points.dropFirst()).allSatisfy { $0.fraction <= $1.fraction && $0.microseconds <= $1.microseconds })
        #expect(points.allSatisfy { $0.fraction < 1 })
    }

    @Test("Latencies above ten minutes count as ten minutes")
    func tooLong() throws {
        var recorder = LatencyRecorder()
        recorder.record(nanoseconds: .max)
        #expect(recorder.count == 1)
        #expect(abs(try #require(recorder.maximumMicroseconds) / 600_000_000 - 1) < 0.001)
    }

    @Test("Without measurements nothing is reported")
    func empty() {
        #expect(LatencyRecorder().report == nil)
    }

    @Test("A timeline has a point for every second, even without events")
    func timelineHasPointForEverySecond() {
        var timeline = RunTimeline(start: Self.start)
        timeline.operationDue(at: Self.at(100))
        timeline.operationEnded(.done(.released), latencyNanoseconds: 2_000_000, at: Self.at(200))
        timeline.operationEnded(.refused(.held), latencyNanoseconds: 4_000_000, at: Self.at(3500))
        timeline.finish(at: Self.at(3900))
        #expect(timeline.points.map(\.second) == [0, 1, 2, 3])
        #expect(timeline.points.map(\.done) == [1, 0, 0, 0])
        #expect(timeline.points.map(\.refused) == [0, 0, 0, 1])
        #expect(timeline.points.map { $0.max == nil } == [false, true, true, false])
    }

    @Test("An operation without an answer has no latency")
    func operationWithoutAnswerHasNoLatency() {
        var tally = OperationTally()
        tally.operationEnded(.unknown(reason: "answer-lost"), latencyNanoseconds: 1_000_000)
        tally.operationEnded(.failed(code: "not-connected"), latencyNanoseconds: 1000)
        tally.operationEnded(.failed(code: "UNAVAILABLE"), latencyNanoseconds: 1_000_000)
        #expect(tally.unknown == 1)
        #expect(tally.failed == ["not-connected": 1, "UNAVAILABLE": 1])
        #expect(tally.latency.count == 1)
    }

    @Test("Grants count in the fixed window that the answers report, whenever the answers arrive")
    func fixedWindows() {
        var windows = WindowCounts(start: Self.start, services: Self.fixed)
        // The first window lasts from 300 to 1300 ms, and its answers arrive a few milliseconds late.
        windows.recordTake(service: 0, cost: 1, resetAfterMilliseconds: 1000, at: Self.at(301))
        windows.recordTake(service: 0, cost: 2, resetAfterMilliseconds: 500, at: Self.at(804))
        windows.recordTake(service: 0, cost: 3, resetAfterMilliseconds: 1, at: Self.at(1310))
        windows.recordTake(service: 0, cost: 4, resetAfterMilliseconds: 1000, at: Self.at(1350))
        #expect(windows.all.map(\.granted) == [6, 4])
    }

    @Test("Windows of other limits are aligned with the start of the run")
    func slidingWindows() {
        var services = Self.fixed
        services.rules[0].limits[0].algorithm = .sliding
        var windows = WindowCounts(start: Self.start, services: services)
        windows.recordTake(service: 0, cost: 1, resetAfterMilliseconds: 7, at: Self.at(990))
        windows.recordTake(service: 0, cost: 2, resetAfterMilliseconds: 7, at: Self.at(1010))
        #expect(windows.all.map(\.granted) == [1, 2])
        #expect(windows.all.map(\.beganSeconds) == [0, 1])
    }

    @Test("Only the first locks and a limited number of leases are shown")
    func ownership() {
        var log = OwnershipLog(start: Self.start)
        for lock in 0..<20 {
            log.recordHold(lock: lock, client: 1, sidecar: 0, fence: 5, from: Self.at(1000), to: Self.at(1500))
        }
        #expect(log.spans.count == OwnershipLog.maximumLocks)
        #expect(log.spans.first?.beganSeconds == 1)
        #expect(log.spans.first?.endedSeconds == 1.5)
        for _ in 0..<(2 * OwnershipLog.maximumSpans) {
            log.recordHold(lock: 0, client: 1, sidecar: 0, fence: 5, from: Self.at(1000), to: Self.at(1500))
        }
        #expect(log.spans.count == OwnershipLog.maximumSpans)
    }

    @Test("Commands are counted from the first sample on, even across restarts")
    func redisCommands() {
        var meter = RedisCommandMeter()
        #expect(meter.commands == nil)
        meter.recordCount(100, sidecar: 0, processID: 1)
        meter.recordCount(1000, sidecar: 1, processID: 2)
        meter.recordCount(150, sidecar: 0, processID: 1)
        meter.recordCount(1010, sidecar: 1, processID: 2)
        #expect(meter.commands == 60)
        meter.recordCount(7, sidecar: 0, processID: 3)
        meter.recordCount(9, sidecar: 0, processID: 3)
        #expect(meter.commands == 69)
    }

    @Test("Memory of this process is measured, and a missing process is skipped")
    func memoryOfThisProcessIsMeasured() throws {
        var meter = ProcessMeter()
        meter.follow("harness", processID: getpid())
        meter.follow("nobody", processID: -1)
        meter.sample(at: Self.at(0))
        meter.sample(at: Self.at(1000))
        let reports = meter.reports
        #expect(reports.map(\.name) == ["nobody", "harness"])
        #expect(try #require(reports.last).residentPeakBytes > 1_000_000)
        #expect(try #require(reports.first).residentPeakBytes == 0)
    }
}

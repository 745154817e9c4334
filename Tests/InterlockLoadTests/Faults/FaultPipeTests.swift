import InterlockCore

@testable import InterlockJudge
import NIOCore
import Testing

@testable import InterlockLoad

@Suite("Bytes in transit between a sidecar and Redis")
struct FaultPipeTests {
    private static func pipe(_ flow: FaultFlow) -> FaultPipe {
        FaultPipe(flow: flow, random: SeededRandom(seed: 5))
    }

    private static func at(_ milliseconds: Int64) -> NIODeadline {
        .uptimeNanoseconds(1_000_000_000) + .milliseconds(milliseconds)
    }

    /// Returns the forwarded texts with their times until the pipe is idle. The end is a `nil` text.
    private static func drained(_ pipe: inout FaultPipe, from start: NIODeadline) -> [(text: String?, at: NIODeadline)] {
        var now = start
        var drained: [(String?, NIODeadline)] = []
        while true {
            switch pipe.step(at: now) {
            case .forward(let bytes): drained.append((String(buffer: bytes), now))
            case .end: drained.append((nil, now))
            case .wait(let due): now = due
            case .idle: return drained
            }
        }
    }

    @Test("Bytes that flow freely pass immediately, and the end follows")
    func freelyFlowingBytesPassImmediately() {
        var pipe = Self.pipe(.free)
        pipe.take(ByteBuffer(string: "one"), at: Self.at(0))
        pipe.take(ByteBuffer(string: "two"), at: Self.at(0))
        pipe.end(at: Self.at(0))
        let drained = Self.drained(&pipe, from: Self.at(0))
        #expect(drained.map(\.text) == ["one", "two", nil])
        #expect(drained.allSatisfy { $0.at == Self.at(0) })
    }

    @Test("Delayed bytes arrive in order, within the configured delay")
    func delayedBytesArriveInOrder() {
        var pipe = Self.pipe(.delayed(fixed: .milliseconds(10), jitter: .milliseconds(50)))
        let words = (0..<20).map { "word \($0)" }
        for (index, word) in words.enumerated() { pipe.take(ByteBuffer(string: word), at: Self.at(Int64(index))) }
        let drained = Self.drained(&pipe, from: Self.at(0))
        #expect(drained.map(\.text) == words)
        #expect(drained.enumerated().allSatisfy { $1.at >= Self.at(Int64($0) + 10) && $1.at <= Self.at(20 + 60) })
    }

    @Test("A trickle lets a fixed number of bytes pass at a time")
    func tricklePassesFixedNumberOfBytesAtATime() {
        var pipe = Self.pipe(.throttled(bytes: 3, every: .milliseconds(5)))
        pipe.take(ByteBuffer(string: "abcdefgh"), at: Self.at(0))
        pipe.end(at: Self.at(0))
        let drained = Self.drained(&pipe, from: Self.at(0))
        #expect(drained.map(\.text) == ["abc", "def", "gh", nil])
        #expect(drained.prefix(3).map(\.at) == [Self.at(0), Self.at(5), Self.at(10)])
    }

    @Test("Held bytes pass when the flow resumes")
    func heldBytesPassWhenFlowResumes() {
        var pipe = Self.pipe(.blocked)
        pipe.take(ByteBuffer(string: "late"), at: Self.at(0))
        #expect(pipe.step(at: Self.at(1000)) == .idle)
        pipe.change(to: .free)
        #expect(pipe.step(at: Self.at(1000)) == .forward(ByteBuffer(string: "late")))
    }

    @Test("A source whose bytes cannot pass is not read")
    func backPressure() {
        #expect(!Self.pipe(.blocked).wantsMore)
        var pipe = Self.pipe(.delayed(fixed: .seconds(1), jitter: .zero))
        #expect(pipe.wantsMore)
        pipe.take(ByteBuffer(repeating: 0, count: 1 << 20), at: Self.at(0))
        #expect(!pipe.wantsMore)
        _ = Self.drained(&pipe, from: Self.at(0))
        #expect(pipe.wantsMore)
    }
}

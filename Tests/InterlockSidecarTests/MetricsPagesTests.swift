import InterlockProcesses
import SidecarListeners
import SidecarTelemetry
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import Testing

@Suite("Metrics pages")
struct MetricsPagesTests {
    @Test("Requests that arrive while a page is written share the next one, and disconnected readers use no slot")
    func shared() async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let (firstMayEnd, gate) = AsyncStream.makeStream(of: Void.self)
        let pageCount = NIOLockedValueBox(0)
        let received = NIOLockedValueBox<[String: [String]]>([:])
        try await eventLoop.submit {
            let pages = MetricsPages(eventLoop: eventLoop) { _ in
                let number = pageCount.withLockedValue {
                    $0 += 1
                    return $0
                }
                if number == 1 { for await _ in firstMayEnd { break } }
                return "\(number)"
            }
            for clientName in ["first"] + Array(repeating: "gone", count: 9) + Array(repeating: "busy", count: 9) + ["late"] {
                pages.request(.prometheus, of: clientName, hasDisconnected: { clientName == "gone" }) { page in
                    received.withLockedValue { $0[clientName, default: []].append(String(buffer: page)) }
                }
            }
        }.get()
        gate.yield()
        try await eventually("every reader has a page") { received.withLockedValue { $0.values.flatMap(\.self).count } == 11 }
        let busy = Array(repeating: "2", count: 7) + ["3", "3"]
        #expect(received.withLockedValue(\.self) == ["first": ["1"], "late": ["2"], "busy": busy])
        #expect(pageCount.withLockedValue(\.self) == 3)
    }
}

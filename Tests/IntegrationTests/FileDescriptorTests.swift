import FoundationEssentials
import InterlockProcesses
import NIOCore
import NIOPosix
import Testing

@Suite("A sidecar without file descriptors", .serialized, .timeLimit(.minutes(2)))
struct FileDescriptorTests {
    @Test("Without descriptors, health and metrics answer within a second, and one log line a minute says so")
    func exhausted() async throws {
        try await SidecarProcess.withSidecar(openFiles: 80) { sidecar in
            var silent: [any Channel] = []
            for _ in 0..<100 {
                silent.append(
                    try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                        .connect(host: "127.0.0.1", port: sidecar.respPort).get())
            }
            try await eventually("the shortage is logged") { sidecar.process.errors.contains("event=process.no_descriptors") }
            for path in ["/healthz", "/readyz", "/metrics", "/healthz"] {
                let start = ContinuousClock.now
                let response = try await sidecar.get(path)
                #expect(ContinuousClock.now - start < .seconds(1), "\(path)")
                #expect(response.contains(path == "/metrics" ? "process_open_fds" : "status"), "\(path): \(response)")
            }
            #expect(sidecar.process.errors.ranges(of: "event=process.no_descriptors").count == 1)
            for channel in silent { try? await channel.close() }
            try await eventually(within: .seconds(10), "the sidecar serves again") {
                try await sidecar.get("/v1/services").contains("services")
            }
        }
    }
}

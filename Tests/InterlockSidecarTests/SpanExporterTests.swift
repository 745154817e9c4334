import InterlockProcesses
import Interlock
import InterlockCore
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOSSL
import Testing

@testable import SidecarSettings
@testable import SidecarTelemetry

@Suite("Sending spans", .timeLimit(.minutes(1)))
struct SpanExporterTests {
    private static func exporter(_ settings: TracingSettings, _ queue: SpanQueue) throws -> SpanExporter {
        try SpanExporter(
            settings, queue: queue, resource: [:], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    /// Ends `count` spans one by one, each after the collector has received the one before.
    private static func sending(
        _ settings: TracingSettings, count: Int, to collector: TestUpstream
    ) async throws {
        let queue = SpanQueue()
        var all = settings
        all.samplingRate = 1
        let tracer = Tracer(all, queue: queue)
        let exporter = try exporter(settings, queue)
        let running = Task { try await exporter.run() }
        for number in 1...count {
            tracer.begin("a", kind: .server, parent: nil)?.end()
            try await eventually(within: .seconds(30), "batch \(number) has arrived") { collector.received.count >= number }
        }
        running.cancel()
        try await running.value
    }

    @Test("One connection carries many batches")
    func oneConnection() async throws {
        try await TestUpstream.with({
            try await $0.takeBody(); try await $0.answer("200 OK")
        }) { collector in
            try await Self.sending(
                TracingSettings(endpoint: "http://127.0.0.1:\(collector.port)"), count: 2, to: collector)
            #expect(collector.connectionCount == 1)
        }
    }

    @Test("A collector with a private authority's certificate receives the configured fields")
    func privateAuthority() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let certificate = try await TestCertificate.selfSigned(in: folder.path)
        let context = try NIOSSLContext(
            configuration: .makeServerConfiguration(
                certificateChain: NIOSSLCertificate.fromPEMFile(certificate.certificatePath).map { .certificate($0) },
                privateKey: .privateKey(NIOSSLPrivateKey(file: certificate.keyPath, format: .pem))))
        try await TestUpstream.with(
            tls: context,
            {
                try await $0.takeBody(); try await $0.answer("200 OK")
            }
        ) { collector in
            var settings = TracingSettings(endpoint: "https://localhost:\(collector.port)/otlp")
            settings.certificateAuthority = certificate.certificatePath
            settings.headers = [.init(name: "Authorization", value: "Bearer correct-horse")]
            try await Self.sending(settings, count: 1, to: collector)
            let head = try #require(collector.received.first)
            #expect(head.hasPrefix("POST /otlp HTTP/1.1\r\n") && head.contains("\r\nAuthorization: Bearer correct-horse"))
        }
    }

    @Test(
        "A collector's Retry-After is respected", arguments: ["429 Too Many Requests", "503 Unavailable"])
    func collectorRetryAfterIsRespected(status: String) async throws {
        let times = NIOLockedValueBox<[ContinuousClock.Instant]>([])
        try await TestUpstream.with({ call in
            try await call.takeBody()
            times.withLockedValue { $0.append(.now) }
            let isFirst = times.withLockedValue { $0.count == 1 }
            try await call.answer(isFirst ? status : "200 OK", isFirst ? ["Retry-After: 4"] : [])
        }) { collector in
            let queue = SpanQueue()
            let settings = TracingSettings(endpoint: "http://127.0.0.1:\(collector.port)")
            var all = settings
            all.samplingRate = 1
            let tracer = Tracer(all, queue: queue)
            let exporter = try Self.exporter(settings, queue)
            let running = Task { try await exporter.run() }
            tracer.begin("a", kind: .server, parent: nil)?.end()
            try await eventually(within: .seconds(30), "the collector is called again") {
                times.withLockedValue { $0.count } >= 2
            }
            running.cancel()
            try await running.value
            let both = times.withLockedValue { $0 }
            #expect(both[1] - both[0] >= .seconds(4))
        }
    }
}

extension TestUpstream.Call {
    /// Reads a body of the length announced in the head.
    mutating func takeBody() async throws {
        var remaining = values("content-length").first.flatMap { Int($0) } ?? 0
        while remaining > 0, let nextBytes = try await nextBytes() { remaining -= nextBytes.readableBytes }
    }
}

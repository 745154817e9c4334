import Glibc
import InterlockCore
import InterlockProcesses
import Testing

@testable import InterlockSidecar
@testable import SidecarSettings

@Suite("Reload")
struct ReloadTests {
    private static let keys = "auth: { keys: [ { name: ops, key: ops-secret, role: admin } ] }\n"
    private static let services = "services: { catalog: { limits: [ { limit: 5, per: 1m } ] } }\n"

    private static func load(_ yaml: String) throws -> SidecarConfiguration {
        try SidecarConfiguration.load(yaml: yaml, fileName: "a.yaml")
    }

    @Test(
        "A reload that removes all keys is rejected, and the error names them",
        arguments: ["", services, "auth: { keys: [] }\n" + services])
    func allKeys(yaml: String) throws {
        let running = try Self.load(Self.keys + Self.services)
        let error = #expect(throws: ConfigurationError.self) { try Self.load(yaml).rejectLosses(since: running) }
        #expect(error?.description.contains("auth.keys") == true && error?.description.contains("ops") == true)
    }

    @Test(
        "A reload of a file that defines nothing is rejected, even if no keys existed",
        arguments: ["", "# services:\n", "log: {}"])
    func reloadThatDefinesNothingIsRejected(yaml: String) throws {
        let running = try Self.load(Self.services)
        let error = #expect(throws: ConfigurationError.self) { try Self.load(yaml).rejectLosses(since: running) }
        #expect(error?.description.contains("empty or truncated") == true)
        try Self.load(yaml).rejectLosses(since: Self.load(yaml))
    }

    @Test("A reload applies other keys and services, and names the removed ones")
    func reloadAppliesOtherKeysAndServices() throws {
        let running = try Self.load(Self.keys + Self.services)
        let new = try Self.load("auth: { keys: [ { name: web, key: web-secret, role: use } ] }\nservices: { shop: {} }\n")
        try new.rejectLosses(since: running)
        #expect(new.removals(since: running) == ["keys": "ops", "services": "catalog"])
        #expect(running.removals(since: running) == [:])
    }

    @Test("A reload that drops required gRPC client certificates is rejected")
    func clientAuthorities() throws {
        var running = SidecarConfiguration()
        running.listen.tls = TLSSettings(certificate: "a", key: "b", grpcClientAuthorities: "c")
        var new = running
        new.listen.tls?.grpcClientAuthorities = nil
        let error = #expect(throws: ConfigurationError.self) { try new.rejectLosses(since: running) }
        #expect(error?.description.contains("listen.tls.grpc_client_ca") == true)
    }

    @Test("A reload names every section that it cannot apply")
    func notApplied() throws {
        let running = try Self.load("")
        for (yaml, name) in [
            ("redis: { timeout: 7s }", "redis"), ("listen: { resp: '127.0.0.1:1' }", "listen.resp"),
            ("listen: { http: '127.0.0.1:1' }", "listen.http"), ("listen: { grpc: '127.0.0.1:1' }", "listen.grpc"),
            ("listen: { unix: /a }", "listen.unix"), ("listen: { unix: /a, unix_mode: '0666' }", "listen.unix_mode"),
            ("listen: { hosts: [ a ] }", "listen.hosts"), ("listen: { allow_plaintext: true }", "listen.allow_plaintext"),
            ("listen: { max_connections: 7 }", "listen.max_connections"), ("log: { level: debug }", "log"),
            ("tracing: { endpoint: 'http://a' }", "tracing"), ("locks: { max_ttl: 7m }", "locks"),
            ("fleet_size: 7", "fleet_size"), ("rls: { timeout: 7ms }", "rls.timeout"),
        ] {
            let changes = try Self.load(yaml).changesNeedingRestart(since: running)
            #expect(changes.contains(name), "\(yaml): \(changes)")
        }
    }

    @Test("A reload detects new content in an authority file with the same path")
    func authorities() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let certificate = try await TestCertificate.selfSigned(in: folder.path)
        let yaml = "services: { shop: { url: 'https://a', tls: { ca: '\(certificate.certificatePath)' } } }"
        let before = try Self.load(yaml)
        #expect(try Self.load(yaml).services == before.services)
        _ = try await TestCertificate.selfSigned(in: folder.path)
        #expect(try Self.load(yaml).services != before.services)
        unlink(certificate.certificatePath)
        rename(certificate.keyPath, certificate.certificatePath)
        let error = #expect(throws: ConfigurationError.self) { try Self.load(yaml) }
        #expect(error?.description.contains("contains no CA certificate in PEM format") == true)
    }
}

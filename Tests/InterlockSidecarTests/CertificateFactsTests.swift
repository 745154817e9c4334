import InterlockProcesses
import Testing

@testable import SidecarSettings

@Suite("Warnings about certificates that clients would reject")
struct CertificateFactsTests {
    private static let facts = CertificateFacts(
        names: ["sidecar.internal", "*.example.com", "10.0.0.5"], validity: 1_000_000...2_000_000)

    @Test("A valid certificate for the called hosts does not cause a warning")
    func validCertificateForCalledHostsDoesNotCauseWarning() {
        let hosts = ["Sidecar.internal", "a.example.com", "10.0.0.5"]
        #expect(Self.facts.warnings(for: hosts, unixSeconds: 1_500_000) == [])
        #expect(Self.facts.warnings(for: [], unixSeconds: 1_500_000) == [])
    }

    @Test(
        "A certificate for other hosts gets a warning that names them",
        arguments: ["example.com", "a.b.example.com", "10.0.0.6", "internal"])
    func otherHost(host: String) throws {
        let warning = try #require(Self.facts.warnings(for: [host], unixSeconds: 1_500_000).first)
        #expect(warning.contains("is not valid for \(host)") && warning.contains("sidecar.internal"))
    }

    @Test("A certificate that has expired or is not yet valid gets a warning")
    func days() {
        #expect(
            Self.facts.warnings(for: [], unixSeconds: 2_000_000 + 3 * 86_400).first?.contains("expired 3 days ago")
                == true)
        #expect(Self.facts.warnings(for: [], unixSeconds: 999_999).first?.contains("not valid yet") == true)
    }

    @Test("Names that a new certificate lacks are found")
    func namesThatNewCertificateLacksAreFound() {
        let new = CertificateFacts(names: ["*.internal"], validity: 0...1)
        #expect(new.names(missingComparedTo: Self.facts) == ["*.example.com", "10.0.0.5"])
    }

    @Test("A certificate is read from a PEM file")
    func certificateIsReadFromPEMFile() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let certificate = try await TestCertificate.selfSigned(in: folder.path)
        let facts = try #require(CertificateFacts(file: certificate.certificatePath))
        #expect(facts.names == ["localhost", "127.0.0.1"])
        #expect(facts.validity.count > 80_000)
        #expect(CertificateFacts(file: certificate.keyPath) == nil)
        let yaml = """
            listen:
              hosts: [ other.internal ]
              tls: { certificate: "\(certificate.certificatePath)", key: "\(certificate.keyPath)" }
            """
        let configuration = try SidecarConfiguration.load(yaml: yaml, fileName: "a.yaml")
        #expect(configuration.warnings.contains { $0.contains("is not valid for other.internal") })
    }
}

import InterlockCore
import InterlockProcesses
import Testing

@testable import InterlockSidecar
@testable import SidecarSettings

@Suite("Ready banner")
struct ReadyBannerTests {
    private static func banner(_ edit: (inout SidecarConfiguration) -> Void = { _ in }) -> String {
        var configuration = SidecarConfiguration()
        edit(&configuration)
        let addresses = Sidecar.Addresses(respPort: 1, httpPort: 2, grpcPort: nil, embeddedRedis: nil)
        return ReadyBanner(addresses, configuration).text
    }

    @Test("The banner shows plain commands on loopback")
    func bannerShowsPlainCommandsOnLoopback() {
        #expect(Self.banner().contains("\n  RESP     redis-cli -p 1 PING\n  HTTP     curl -s localhost:2/readyz\n"))
    }

    @Test("The banner shows the console's URL")
    func bannerShowsConsoleURL() {
        #expect(Self.banner().hasSuffix("\n  Console  http://localhost:2/console"))
    }

    @Test("The banner names an address that is not loopback, and requests the key")
    func bannerNamesNonLoopbackAddress() {
        let banner = Self.banner {
            $0.listen.resp.host = "10.0.0.5"
            $0.listen.http.host = "0.0.0.0"
            $0.listen.unix = "/a"
            $0.keys = [APIKey(name: "ops", secret: "ops-secret", role: .admin)]
        }
        #expect(banner.contains("RESP     REDISCLI_AUTH=\"$INTERLOCK_API_KEY\" redis-cli -h 10.0.0.5 -p 1 PING"))
        #expect(banner.contains("curl -s localhost:2/readyz"))
        #expect(banner.contains("Unix     REDISCLI_AUTH=\"$INTERLOCK_API_KEY\" redis-cli -s /a PING"))
        #expect(!banner.contains("ops-secret"))
    }

    @Test("The banner uses TLS with a host that the certificate names")
    func bannerUsesTLSWithHostThatCertificateNames() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let certificate = try await TestCertificate.selfSigned(in: folder.path)
        let banner = Self.banner {
            $0.listen.resp.host = "0.0.0.0"
            $0.listen.http.host = "10.0.0.5"
            $0.listen.tls = TLSSettings(certificate: certificate.certificatePath, key: certificate.keyPath)
        }
        #expect(banner.contains("redis-cli --tls --cacert \(certificate.certificatePath) -h localhost -p 1 PING"))
        #expect(banner.contains("curl --cacert \(certificate.certificatePath) -s https://localhost:2/readyz"))
        #expect(banner.hasSuffix("\n  Console  https://localhost:2/console"))
    }
}

import InterlockClient
import Testing

@testable import InterlockLoad

@Suite("Arguments of a run")
struct LoadArgumentTests {
    @Test("A skew is uniform or Zipf's with its exponent")
    func skewIsUniformOrZipfWithExponent() throws {
        #expect(try NameSkew(argument: "uniform") == .uniform)
        #expect(try NameSkew(argument: "zipf:1.1") == .zipf(exponent: 1.1))
    }

    @Test(
        "An invalid skew is rejected",
        arguments: ["", "zipf", "zipf:", "zipf:0", "zipf:-1", "zipf:nan", "zipf:99"])
    func badSkew(text: String) {
        #expect(throws: LoadArgumentError.self) { try NameSkew(argument: text) }
    }

    @Test("A hold is one duration, or a range that may start with a plain 0")
    func holdIsDurationOrRange() throws {
        #expect(try DurationRangeText.parse("0..5ms", duration: Self.duration) == .zero...(.milliseconds(5)))
        #expect(try DurationRangeText.parse("2ms", duration: Self.duration) == .milliseconds(2)...(.milliseconds(2)))
        #expect(try DurationRangeText.parse("0", duration: Self.duration) == .zero...(.zero))
    }

    @Test("An invalid hold is rejected", arguments: ["", "..", "5ms..", "..5ms", "5ms..1ms", "5", "0..5"])
    func badHold(text: String) {
        #expect(throws: LoadArgumentError.self) { try DurationRangeText.parse(text, duration: Self.duration) }
    }

    @Test("A sidecar may be HOST:PORT")
    func hostAndPort() throws {
        let endpoint = try SidecarEndpoint(argument: "127.0.0.1:7379", number: 3)
        #expect(endpoint.number == 3)
        #expect(endpoint.resp.address == .tcp(host: "127.0.0.1", port: 7379))
        #expect(try SidecarEndpoint(argument: "[::1]:7379", number: 0).resp.address == .tcp(host: "::1", port: 7379))
    }

    @Test("A sidecar may be a Unix socket", arguments: ["unix:/run/interlock.sock", "unix:///run/interlock.sock"])
    func unixSocket(text: String) throws {
        let endpoint = try SidecarEndpoint(argument: text, number: 0)
        #expect(endpoint.resp.address == .unixSocket(path: "/run/interlock.sock"))
    }

    @Test("A sidecar's URL may contain an API key")
    func sidecarURLMayContainAPIKey() throws {
        let endpoint = try SidecarEndpoint(argument: "redis://:secret@sidecar.example:7379", number: 0)
        #expect(endpoint.resp.address == .tcp(host: "sidecar.example", port: 7379))
        #expect(endpoint.resp.apiKey == "secret")
    }

    @Test(
        "An invalid sidecar is rejected",
        arguments: [
            "", "localhost", "localhost:", "localhost:0", "localhost:99999", "unix:", "http://localhost:7380",
            "redis://localhost",
            "redis://localhost:7379/1",
        ])
    func badSidecar(text: String) {
        #expect(throws: LoadArgumentError.self) { try SidecarEndpoint(argument: text, number: 0) }
    }

    @Test("An error never contains a key")
    func noKeys() {
        let error = #expect(throws: LoadArgumentError.self) {
            try SidecarEndpoint(argument: "redis://:secret@localhost:7379/1", number: 0)
        }
        #expect(error?.description.contains("secret") == false)
    }

    private static func duration(_ text: Substring) throws -> Duration {
        guard text.hasSuffix("ms"), let number = Int(text.dropLast(2)) else { throw LoadError("no duration") }
        return .milliseconds(number)
    }
}

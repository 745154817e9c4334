internal import AsyncHTTPClient
internal import InterlockCore
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL

/// A `GET` on a connection of its own, so that connecting is probed too.
struct HTTPProbe: Sendable {
    let url: String
    let judge: ProbeJudge
    /// A file of certificates in PEM; `nil`: the system's.
    let certificateAuthority: String?
    let timeout: Duration
    let client: HTTPClient

    /// - Throws: whatever kept the answer from coming whole.
    func ask() async throws -> ProbeFinding {
        var request = HTTPClientRequest(url: url)
        request.headers = [
            "User-Agent": "interlock/\(SidecarVersion.current)", "Accept": "*/*", "Accept-Encoding": "identity",
            "Cache-Control": "no-cache", "Connection": "close",
        ]
        if let certificateAuthority {
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.trustRoots = .file(certificateAuthority)
            request.tlsConfiguration = configuration
        }
        // Not the deadline of the probe, which is kept elsewhere: what is left behind after that one.
        let response = try await client.execute(request, timeout: TimeAmount(timeout * 2))
        var body: [UInt8] = []
        var isCut = false
        for try await part in response.body {
            body += part.readableBytesView
            guard body.count <= ProbeExpectation.inspectedBytes else {
                body.removeLast(body.count - ProbeExpectation.inspectedBytes)
                isCut = true
                break
            }
        }
        return judge.judge(
            ProbeAnswer(
                status: Int(response.status.code), headers: response.headers.map { ($0.name, $0.value) }, body: body, isCut: isCut
            ))
    }
}

internal import HTTPTypes
internal import HummingbirdCore
internal import Interlock
internal import InterlockCore
internal import Logging
internal import NIOCore

/// The guarded proxy: a call to a configured service, with its breaker, limits and concurrency before it.
struct ProxyRoutes {
    let coordinator: Coordinator
    let upstreams: Upstreams
    /// Whether clients come over TLS.
    let isTLS: Bool
    let logger: Logger

    var routes: [HTTPRoute] {
        [HTTPRoute(relayedBelow: "/proxy/{service}", "path", relay: relay)]
    }

    @concurrent
    private func relay(_ call: HTTPCall, _ writer: borrowing ResponseWriter) async throws -> HTTPAnswer {
        let started = NIODeadline.now()
        let request = call.request.head
        let service = try call.name("service").text
        let target = try ProxyTarget(request.path ?? "")
        let subject = try call.header(.interlockSubject).map { try ResourceName($0, what: "Interlock-Subject").text }
        let peer = try await call.peer()
        let forwarded = ProxyFields.forwarded(
            for: call.channel.remoteAddress?.ipAddress, host: request.authority, isTLS: isTLS)
        var guarded = GuardedCall(
            service: service, request: request, target: target, subject: subject, forwarded: forwarded, started: started,
            peer: peer, channel: call.channel, permits: ProxyPermits(coordinator: coordinator),
            upstreams: upstreams, logger: logger)
        guard let upload = try Self.upload(call, peer) else { return try await guarded.answer(upload: nil) {} }
        let isContinueAwaited = call.header(.expect)?.lowercased() == "100-continue"
        var answer: HTTPAnswer
        do {
            answer = try await guarded.answer(upload: upload) {
                // Only now: a client that is refused need not send the body.
                if isContinueAwaited { try await writer.writeInformationalHead(HTTPResponse(status: .continue)) }
            }
        } catch let problem as HTTPProblem {
            answer = HTTPAnswer(problem)
        } catch let error as InterlockError {
            answer = HTTPAnswer(HTTPProblem(error))
        }
        if isContinueAwaited, !guarded.hasBegun {
            // Whether its body comes all the same is unknown, so that nothing can follow on this connection.
            answer.headers[.connection] = "close"
        }
        answer.afterwards = { await upload.end() }
        return answer
    }

    /// The request's body; `nil`: it has none.
    private static func upload(_ call: HTTPCall, _ peer: PeerPresence) throws -> Upload? {
        if call.header(.transferEncoding) != nil { return Upload(call.request.body, length: nil, peer: peer) }
        guard let length = call.header(.contentLength).flatMap({ Int64($0) }), length > 0 else { return nil }
        guard call.request.method != .trace else { throw HTTPProblem(.invalid, "TRACE has no body") }
        return Upload(call.request.body, length: length, peer: peer)
    }
}

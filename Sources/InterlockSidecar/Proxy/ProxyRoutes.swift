internal import Interlock
internal import InterlockCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1

/// The guarded proxy: a call to a configured service, with its breaker, limits and concurrency before it.
struct ProxyRoutes {
    let upstreams: NIOLoopBound<Upstreams>
    let logger: Logger

    var routes: [HTTPRoute] {
        [HTTPRoute(relayedBelow: "/proxy/{service}", "path", relay: relay)]
    }

    private func relay(_ call: HTTPCall, _ hasBody: Bool, _ reply: HTTPReply) throws -> any HTTPRelay {
        let service = try call.name("service").text
        let target = try ProxyTarget(call.target.whole)
        let subject = try call.header(HTTPCall.subjectField).map { try ResourceName($0, what: HTTPCall.subjectField).text }
        guard call.head.method != .CONNECT else {
            throw HTTPProblem(.invalid, "CONNECT opens a tunnel to any host; the proxy calls configured services only")
        }
        guard !hasBody || call.head.method != .TRACE else { throw HTTPProblem(.invalid, "TRACE has no body") }
        return GuardedCall(
            call, hasBody: hasBody, reply, service: service, target: target, subject: subject, upstreams: upstreams.value,
            logger: logger)
    }
}

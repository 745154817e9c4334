internal import Interlock
internal import InterlockCore
package import Logging
package import NIOCore
internal import NIOHTTP1
package import SidecarListeners
internal import SidecarSettings

/// The route of the guarded proxy, for calls to configured services. Their breakers, limits and concurrency guard them.
package struct ProxyRoutes {
    private let upstreams: NIOLoopBound<Upstreams>
    private let logger: Logger

    package init(upstreams: NIOLoopBound<Upstreams>, logger: Logger) {
        self.upstreams = upstreams
        self.logger = logger
    }

    package var routes: [HTTPRoute] {
        [HTTPRoute(relayedBelow: "/proxy/{service}", "path", relay: relay)]
    }

    private func relay(_ call: HTTPCall, _ hasBody: Bool, _ responder: HTTPResponder) throws -> any HTTPRelay {
        let service = try call.name("service").text
        let target: ProxyTarget
        do {
            target = try ProxyTarget(call.target.pathAndQuery)
        } catch {
            throw HTTPProblem(.invalid, error.description)
        }
        let subject = try call.header(HTTPCall.subjectField).map { try ResourceName($0, parameter: HTTPCall.subjectField).text }
        guard call.head.method != .CONNECT else {
            throw HTTPProblem(.invalid, "CONNECT is not supported; the proxy calls only configured services")
        }
        guard !hasBody || call.head.method != .TRACE else { throw HTTPProblem(.invalid, "a TRACE request must not have a body") }
        return GuardedCall(
            call, hasBody: hasBody, responder, service: service, target: target, subject: subject, upstreams: upstreams.value,
            logger: logger)
    }
}

internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// The domains of Envoy's rate limit service: lists them, and shows the decision that a descriptor would get.
struct DomainRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.GET, "/v1/domains", isTraced: false, onEventLoop: list),
            HTTPRoute(.GET, "/v1/domains/{domain}/peek", isTraced: false, onEventLoop: peek),
        ]
    }

    private func list(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        responder(try .json(DomainListReply.fields(coordinator.loopBound().allDomains())))
    }

    private func peek(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        guard let descriptor = try call.query("descriptor").text("descriptor") else {
            throw HTTPProblem(.invalid, "descriptor is missing; expected entries as key=value,key=value with %2C for a comma")
        }
        coordinator.loopBound().peek(
            domain: call.parameter("domain"), descriptor: descriptor,
            completion: Completion { _, result in
                switch result {
                case .decided(let decision), .decidedBatch(let decision, _, _):
                    responder(.object(decision.fields))
                case .failed(let error): responder.fail(error)
                }
            })
    }
}

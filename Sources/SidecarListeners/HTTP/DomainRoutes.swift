internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// The domains of Envoy's rate limit service: their list, and the decision that a descriptor would get.
struct DomainRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.GET, "/v1/domains", isTraced: false, reply: list),
            HTTPRoute(.GET, "/v1/domains/{domain}/peek", isTraced: false, reply: peek),
        ]
    }

    private func list(_ call: HTTPCall, _ reply: HTTPReply) throws {
        reply(try .json(DomainListReply.members(coordinator.callsOnEventLoop().allDomains())))
    }

    private func peek(_ call: HTTPCall, _ reply: HTTPReply) throws {
        guard let descriptor = try call.query("descriptor").text("descriptor") else {
            throw HTTPProblem(.invalid, "descriptor is missing; expected entries as key=value,key=value with %2C for a comma")
        }
        coordinator.callsOnEventLoop().peek(
            domain: call.parameter("domain"), descriptor: descriptor,
            completion: Completion { _, answer in
                switch answer {
                case .decided(let decision), .decidedBatch(let decision, _, _):
                    reply(.object(decision.members))
                case .failed(let error): reply.fail(error)
                }
            })
    }
}

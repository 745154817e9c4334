internal import HTTPTypes
internal import HummingbirdCore
internal import Interlock
internal import Logging
internal import NIOCore

/// Takes each request through the gate to its route, and its answer back.
struct HTTPDoorResponder: Sendable {
    let router: HTTPRouter
    let gate: HTTPGate
    let logger: Logger
    private let clock = HTTPDate()

    init(router: HTTPRouter, gate: HTTPGate, logger: Logger) {
        self.router = router
        self.gate = gate
        self.logger = logger
    }

    /// Answers one request.
    /// - Throws: what reading and writing throw; the connection is then closed.
    @concurrent
    func respond(to request: Request, writer: consuming ResponseWriter, channel: any Channel) async throws {
        let answer = try await answer(to: request, on: channel, writer)
        var head = HTTPResponse(status: answer.status, headerFields: answer.headers)
        if !answer.isRelayed { complete(&head, answer.body) }
        do {
            if request.method == .head, !answer.isRelayed {
                try await writer.writeResponse(head)
            } else {
                try await writer.write(response: head, body: answer.body)
            }
        } catch {
            await answer.ifUndelivered?()
            await answer.afterwards?()
            throw error
        }
        await answer.afterwards?()
    }

    /// What every answer of this door says.
    private func complete(_ head: inout HTTPResponse, _ body: ResponseBody) {
        head.headerFields[.date] = clock.now()
        head.headerFields[.cacheControl] = "no-store"
        head.headerFields[.xContentTypeOptions] = "nosniff"
        if let length = body.contentLength, head.status != .noContent { head.headerFields[.contentLength] = "\(length)" }
    }

    @concurrent
    private func answer(
        to request: Request, on channel: any Channel, _ writer: borrowing ResponseWriter
    ) async throws -> HTTPAnswer {
        do {
            try gate.refuseForeign(request.head)
            let match = try router.match(method: request.method, path: request.uri.path)
            let answer: HTTPAnswer
            do {
                answer = try await self.answer(to: request, match, on: channel, writer)
            } catch let problem as HTTPProblem {
                answer = HTTPAnswer(problem)
            } catch let error as InterlockError {
                answer = HTTPAnswer(HTTPProblem(error))
            }
            match.counters.count(answer.status)
            logger.debug(
                "Answered a request",
                metadata: [
                    "method": "\(request.method)", "route": "\(match.route.path)", "status": "\(answer.status.code)",
                ])
            return answer
        } catch let problem as HTTPProblem {
            logger.debug("Refused a request", metadata: ["method": "\(request.method)", "code": "\(problem.code.rawValue)"])
            return HTTPAnswer(problem)
        }
    }

    @concurrent
    private func answer(
        to request: Request, _ match: HTTPRouter.Match, on channel: any Channel, _ writer: borrowing ResponseWriter
    ) async throws -> HTTPAnswer {
        let caller = try gate.admit(request.head, to: match.route.admission)
        let call = HTTPCall(request: request, parameters: match.parameters, caller: caller, channel: channel)
        switch match.route.handler {
        case .relay(let relay):
            return try await relay(call, writer)
        case .answer(let answer):
            let length = request.headers[.contentLength].flatMap { Int($0) } ?? 0
            guard length <= HTTPBounds.body else { throw HTTPCall.tooLarge }
            if request.headers[.expect]?.lowercased() == "100-continue" {
                try await writer.writeInformationalHead(HTTPResponse(status: .continue))
            }
            return try await answer(call)
        }
    }
}

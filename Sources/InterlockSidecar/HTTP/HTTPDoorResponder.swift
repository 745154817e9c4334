internal import HTTPTypes
internal import HummingbirdCore
internal import Interlock
internal import Logging
internal import NIOCore

/// Takes each request through the gate to its route, and its answer back.
struct HTTPDoorResponder: Sendable {
    let router: HTTPRouter
    let gate: HTTPGate
    /// It serves the connections beyond all places: nothing but how the sidecar is, once.
    let isFull: Bool
    let logger: Logger
    private let clock = HTTPDate()
    /// How long the rest of a request that nobody wants is read and dropped.
    private static let linger = TimeAmount.seconds(1)
    let refusals: HTTPRefusalCounters
    let refusedLogins: RefusedLogins

    /// Answers one request.
    /// - Throws: what reading and writing throw; the connection is then closed.
    @concurrent
    func respond(to request: Request, writer: consuming ResponseWriter, channel: any Channel) async throws {
        var answer = try await answer(to: request, on: channel, writer)
        if isFull { answer.endsConnection = true }
        var head = HTTPResponse(status: answer.status, headerFields: answer.headers)
        if !answer.isRelayed { complete(&head, answer.body) }
        if answer.endsConnection { head.headerFields[.connection] = "close" }
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
        // Before what waits for the rest of the request: it may never come. Closed on with bytes on their way, the client would not
        // read the answer: it has a little while to send them.
        if answer.endsConnection {
            channel.eventLoop.scheduleTask(in: Self.linger) { Self.end(channel) }
        } else if Self.wantsEnd(request) {
            Self.end(channel)
        }
        await answer.afterwards?()
    }

    /// Whether the client says that it sends no more: in any case, and also among other words.
    private static func wantsEnd(_ request: Request) -> Bool {
        request.headers[values: .connection].contains { value in
            value.lowercased().split(separator: ",").contains { $0.filter { $0 != " " && $0 != "\t" } == "close" }
        }
    }

    /// Reads no more, so that the server takes the request for ended and closes when all is written.
    private static func end(_ channel: any Channel) {
        channel.close(mode: .input).whenFailure { _ in
            // TLS has no half of a connection. What is written has this long to leave.
            channel.eventLoop.scheduleTask(in: .milliseconds(500)) { channel.close(promise: nil) }
        }
    }

    private static func hasBody(_ request: Request) -> Bool {
        request.headers.contains(.transferEncoding) || (request.headers[.contentLength].flatMap { Int($0) } ?? 0) > 0
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
            guard !isFull || match.route.isServedWhenFull else { throw HTTPProblem.doorIsFull }
            var answer: HTTPAnswer
            do {
                answer = try await self.answer(to: request, match, on: channel, writer)
            } catch let problem as HTTPProblem where problem.code != .unauthenticated {
                answer = HTTPAnswer(problem)
                // What was not read to its end, or never ended.
                answer.endsConnection = problem.code == .tooLarge || problem.code == .cancelled
            } catch let error as InterlockError {
                answer = HTTPAnswer(HTTPProblem(error))
            }
            match.counters.count(answer.status)
            logger.log(
                .httpAnswered,
                ["method": "\(request.method)", "route": match.route.path, "status": "\(answer.status.code)"])
            return answer
        } catch let problem as HTTPProblem {
            refusals.count(problem.code)
            if problem.code == .unauthenticated, HTTPGate.showsKey(request.head) {
                refusedLogins.refused(from: channel.remoteAddress)
            }
            logger.log(.httpRefused, ["method": "\(request.method)", "code": problem.code.rawValue])
            var answer = HTTPAnswer(problem)
            answer.endsConnection = Self.hasBody(request)
            return answer
        }
    }

    @concurrent
    private func answer(
        to request: Request, _ match: HTTPRouter.Match, on channel: any Channel, _ writer: borrowing ResponseWriter
    ) async throws -> HTTPAnswer {
        let caller = try gate.admit(request.head, to: match.route.admission)
        let call = HTTPCall(request: request, parameters: match.parameters, caller: caller, access: gate.access, channel: channel)
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

import InterlockCore
import NIOCore

/// A connection to an upstream that speaks HTTP/1.1.
final class UpstreamConnection {
    /// A step of a response.
    private enum Step {
        /// Sends the response's head or a part of its body.
        case send(ByteBuffer)
        /// Sends bytes that do not start the final response: an informational response, a partial head or garbage.
        case preliminary(ByteBuffer)
        /// Waits.
        case pause(milliseconds: Int64)
        /// Completes the response.
        case end(closes: Bool)
        case close
    }

    private enum State {
        case reading
        /// Responds to a request whose body may still be arriving.
        case answering
        /// Sends nothing more; the connection closes after a timeout.
        case silent
        case closed
    }

    private let wire: Wire
    private let host: UpstreamHost
    private let onEnd: () -> Void
    private var random: SeededRandom
    private var reader = UpstreamRequestReader()
    private var state = State.reading
    private var request: (arrival: UpstreamLedger.Arrival, behavior: UpstreamBehavior)?
    /// Whether the current request has arrived in full.
    private var isRequestComplete = true
    private var requestCount = 0
    /// Whether extra bytes followed the last response. The sidecar must then not reuse the connection.
    private var hasExtraBytes = false

    private init(_ wire: Wire, of host: UpstreamHost, random: SeededRandom, onEnd: @escaping () -> Void) {
        self.wire = wire
        self.host = host
        self.random = random
        self.onEnd = onEnd
    }

    /// Serves the far end of a wire, which keeps the connection alive.
    static func serve(_ wire: Wire, of host: UpstreamHost, random: SeededRandom, onEnd: @escaping () -> Void) {
        let connection = UpstreamConnection(wire, of: host, random: random, onEnd: onEnd)
        wire.far.onBytes = { connection.receive($0) }
        wire.far.onEnd = { connection.connectionEnded() }
    }

    // MARK: Reading

    private func receive(_ bytes: ByteBuffer) {
        guard state != .closed else { return }
        reader.append(bytes.readableBytesView)
        do throws(UpstreamRequestReader.ParseError) {
            while state != .closed, mayRead(), let event = try reader.next() {
                switch event {
                case .head(let head): begin(head)
                case .end(let body): finish(body)
                }
            }
        } catch {
            host.reportViolation(
                "call \(request?.arrival.head.number ?? 0) or the next one on its connection is malformed: \(error.reason)")
            close()
        }
    }

    /// Returns whether the next part of a request may be read. Reports a request that arrives before the last response
    /// is complete.
    private func mayRead() -> Bool {
        guard isRequestComplete, state != .reading, reader.hasBytes else { return true }
        host.reportViolation("a request follows call \(request?.arrival.head.number ?? 0) before its answer is complete")
        close()
        return false
    }

    private func begin(_ head: UpstreamRequestHead) {
        if hasExtraBytes { host.reportViolation("call \(head.number) is on a connection with bytes after its last answer") }
        requestCount += 1
        let arrival = host.begin(head, over: wire, isReused: requestCount > 1)
        let behavior = host.drawBehavior()
        request = (arrival, behavior)
        isRequestComplete = false
        switch behavior.mishap {
        case .closesUnread: close()
        case .answersEarly: respond(arrival, behavior)
        default: break
        }
    }

    private func finish(_ body: ByteBuffer) {
        isRequestComplete = true
        guard let (arrival, behavior) = request else { return }
        host.finish(arrival, body: body)
        if state == .reading, !arrival.hasSent { respond(arrival, behavior) }
    }

    // MARK: Responding

    private func respond(_ arrival: UpstreamLedger.Arrival, _ behavior: UpstreamBehavior) {
        arrival.isExecuted = true
        switch behavior.mishap {
        case .closesUnanswered: run([.pause(milliseconds: behavior.delayMilliseconds), .close])
        case .silent: goSilent()
        case .sendsGarbage:
            let garbage = ByteBuffer(string: "HTTP/1.1 abc\r\n\(arrival.head.number)\r\n\r\n")
            run([.pause(milliseconds: behavior.delayMilliseconds), .preliminary(garbage)])
        default: run(steps(arrival, behavior))
        }
    }

    /// Sends nothing more, and closes the connection after a timeout.
    private func goSilent() {
        state = .silent
        host.timeline.schedule(in: .milliseconds(UpstreamBehavior.closeDelayMilliseconds)) { [weak self] in
            self?.close()
        }
    }

    private func run(_ steps: [Step]) {
        state = .answering
        advance(steps[...])
    }

    private func advance(_ steps: ArraySlice<Step>) {
        var remaining = steps
        while state == .answering, let step = remaining.popFirst() {
            switch step {
            case .pause(milliseconds: 0): break
            case .pause(let milliseconds):
                return host.timeline.schedule(in: .milliseconds(milliseconds)) { [self] in advance(remaining) }
            case .send(let bytes): send(bytes)
            case .preliminary(let bytes):
                request?.arrival.hasSent = true
                wire.send(bytes, to: wire.near)
            case .end(let closes): endResponse(closes: closes)
            case .close: close()
            }
        }
        // A response without an end step stays incomplete.
        if state == .answering { goSilent() }
    }

    private func send(_ bytes: ByteBuffer) {
        if let (arrival, behavior) = request {
            arrival.hasSent = true
            arrival.status = behavior.status
            arrival.hasRetryAfter = behavior.retryAfterSeconds != nil
        }
        wire.send(bytes, to: wire.near, isIndivisible: hasExtraBytes)
    }

    private func endResponse(closes: Bool) {
        host.finishResponse()
        guard !closes else { return close() }
        state = .reading
        guard random.happens(0.05) else { return }
        let countAtEnd = requestCount
        host.timeline.schedule(in: .milliseconds(Int64.random(in: 0...1500, using: &random))) { [weak self] in
            guard let self, state == .reading, requestCount == countAtEnd, isRequestComplete else { return }
            close()
        }
    }

    private func close() {
        guard state != .closed else { return }
        request?.arrival.endedAt = host.timeline.now
        connectionEnded()
        wire.close(to: wire.near)
    }

    private func connectionEnded() {
        guard state != .closed else { return }
        state = .closed
        // The closures retain the connection.
        wire.far.onBytes = { _ in }
        wire.far.onEnd = {}
        onEnd()
    }

    // MARK: Responses

    private func steps(_ arrival: UpstreamLedger.Arrival, _ behavior: UpstreamBehavior) -> [Step] {
        var steps = [Step.pause(milliseconds: behavior.delayMilliseconds)]
        for status in behavior.informational {
            steps.append(.preliminary(ByteBuffer(string: "HTTP/1.1 \(status) Hint\r\nLink: </\(arrival.head.number)>\r\n\r\n")))
        }
        let body = behavior.hasBody(for: arrival.head.method) ? NumberedBody.make(arrival.head.number, about: behavior.size) : nil
        let head = head(of: arrival, behavior, bodySize: body?.readableBytes)
        if case .closesInHead = behavior.mishap {
            let part = head.getSlice(at: 0, length: Int.random(in: 1..<head.readableBytes, using: &random)) ?? head
            return steps + [.preliminary(part), .close]
        }
        var writes = [head]
        if let body { writes += framed(body, behavior) }
        if behavior.parts == 1, !endsInBody(behavior) {
            writes = [writes.reduce(into: ByteBuffer()) { whole, write in _ = whole.writeImmutableBuffer(write) }]
        }
        return steps + closingSteps(writes, arrival, behavior, hasBody: body != nil)
    }

    /// Returns the steps that send these writes with pauses between them, and end the response.
    private func closingSteps(
        _ writes: [ByteBuffer], _ arrival: UpstreamLedger.Arrival, _ behavior: UpstreamBehavior, hasBody: Bool
    ) -> [Step] {
        var writes = writes
        var end = [Step.end(closes: hasBody && behavior.framing == .untilClose)]
        switch behavior.mishap {
        case .closesInBody where hasBody && behavior.framing != .untilClose:
            writes = truncated(writes)
            end = [.close]
        case .sendsTooLittle(let closes) where hasBody && behavior.framing == .length: end = closes ? [.close] : []
        case .closesAfter, .answersEarly(closes: true): end = [.end(closes: true)]
        case .answersTwice where !hasBody || behavior.framing != .untilClose:
            hasExtraBytes = true
            writes[writes.count - 1].writeImmutableBuffer(extraResponse(arrival.head.number + 1_000_000))
        default: break
        }
        let steps = writes.flatMap { [Step.send($0), .pause(milliseconds: behavior.pauseMilliseconds)] }
        return Array(steps.dropLast()) + end
    }

    /// Whether the connection closes within the body. The head is then a separate write.
    private func endsInBody(_ behavior: UpstreamBehavior) -> Bool {
        if case .closesInBody = behavior.mishap { true } else { false }
    }

    /// Cuts the last write short.
    private func truncated(_ writes: [ByteBuffer]) -> [ByteBuffer] {
        var writes = writes
        guard let last = writes.popLast(), last.readableBytes > 1 else { return writes }
        let length = Int.random(in: 1..<last.readableBytes, using: &random)
        return writes + (last.getSlice(at: last.readerIndex, length: length).map { [$0] } ?? [])
    }

    /// Returns a second response that answers no request.
    private func extraResponse(_ number: Int) -> ByteBuffer {
        ByteBuffer(string: "HTTP/1.1 200 OK\r\nX-Call: \(number)\r\nX-Status: 200\r\nContent-Length: 8\r\n\r\nunwanted")
    }

    private func head(of arrival: UpstreamLedger.Arrival, _ behavior: UpstreamBehavior, bodySize: Int?) -> ByteBuffer {
        var head = "HTTP/1.1 \(behavior.status) Status\r\nX-Call: \(arrival.head.number)\r\nX-Status: \(behavior.status)\r\n"
        if let retryAfterSeconds = behavior.retryAfterSeconds { head += "Retry-After: \(retryAfterSeconds)\r\n" }
        if let bodySize {
            var size = bodySize
            if case .sendsTooLittle = behavior.mishap, behavior.framing == .length {
                size += Int.random(in: 1...100, using: &random)
            }
            // A client cannot detect truncation if the end of the connection delimits the body.
            if behavior.framing != .untilClose { head += "X-Size: \(size)\r\n" }
            switch behavior.framing {
            case .length: head += "Content-Length: \(size)\r\n"
            case .chunked: head += "Transfer-Encoding: chunked\r\n"
            case .untilClose: head += "Connection: close\r\n"
            }
        } else if arrival.head.method == "HEAD" {
            head += "Content-Length: \(behavior.size)\r\n"
        }
        return ByteBuffer(string: head + "\r\n")
    }

    private func framed(_ body: ByteBuffer, _ behavior: UpstreamBehavior) -> [ByteBuffer] {
        let parts = body.parts(behavior.parts)
        guard behavior.framing == .chunked else { return parts }
        let trailers = behavior.hasTrailers ? "X-Trailer: yes\r\n" : ""
        return parts.enumerated().map { index, part in
            var chunk = ByteBuffer(string: String(part.readableBytes, radix: 16) + "\r\n")
            chunk.writeImmutableBuffer(part)
            chunk.writeString("\r\n")
            if index == parts.count - 1 { chunk.writeString("0\r\n\(trailers)\r\n") }
            return chunk
        }
    }
}

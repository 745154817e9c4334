internal import HTTPTypes
internal import HummingbirdCore
internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import NIOHTTP1

/// An upstream's answer whose head has arrived, on its way to the client.
struct UpstreamAnswer {
    let head: HTTPResponseHead
    let exchange: UpstreamExchange
    let permit: ProxyPermit
    let peer: PeerPresence
    /// By which `peer` is observed for as long as the answer is relayed.
    let observer: Int?
    /// To the first byte.
    /// From when the upstream had the whole request to when its answer began.
    let latencyMilliseconds: Int64?
    /// The client's.
    let channel: any Channel
    /// Of the whole call.
    let deadline: NIODeadline

    /// A client that does not read keeps no permit: its connection is closed so much later than the call's own end, which is
    /// told first.
    private static let patience = TimeAmount.seconds(1)

    /// Thrown to close the client's connection: what was written must not look like a whole answer.
    private struct BrokenOff: Error {}

    /// How long the upstream wants to be left alone.
    var retryAfterMilliseconds: Int64? {
        guard [429, 503].contains(head.status.code) else { return nil }
        return head.headers.first(name: "retry-after").flatMap(RetryAfter.milliseconds)
    }

    /// It gives way to another try.
    func abandon() {
        exchange.abort(.clientLeft)
        peer.forget(observer)
    }

    /// - Parameters:
    ///   - isHead: nothing follows the head, whatever it says.
    ///   - answers: where a good answer is kept, under `key`.
    func relayed(isHead: Bool, keepIn answers: LastGoodAnswers?, as key: LastGoodAnswers.Key?) -> HTTPAnswer {
        var answer = HTTPAnswer(HTTPResponse.Status(code: Int(head.status.code), reasonPhrase: head.status.reasonPhrase))
        answer.isRelayed = true
        answer.headers = ProxyFields.answer(head.headers)
        let recorder = AnswerRecorder(answers, key, answer.status, answer.headers)
        if let whole = exchange.wholeBody() {
            peer.forget(observer)
            reportGood()
            if var recorder {
                recorder.record(whole)
                recorder.finish()
            }
            answer.body = isHead ? headOnly(&answer.headers) : ResponseBody(byteBuffer: whole)
        } else {
            answer.body = isHead ? headOnly(&answer.headers) : streamed(recorder)
            if isHead { finishWithoutBody() }
        }
        answer.ifUndelivered = { abandon() }
        return answer
    }

    private func streamed(_ recorder: AnswerRecorder?) -> ResponseBody {
        ResponseBody { writer in
            let closing = channel.eventLoop.scheduleTask(deadline: deadline + Self.patience) { channel.close(promise: nil) }
            defer {
                closing.cancel()
                peer.forget(observer)
            }
            var recorder = recorder
            while true {
                let batch = try await next()
                // The upstream has done its part, also when the client takes its time.
                if batch.isLast {
                    closing.cancel()
                    reportGood()
                }
                for buffer in batch.buffers { recorder?.record(buffer) }
                if !batch.buffers.isEmpty { try await writer.write(contentsOf: batch.buffers) }
                if batch.isLast { break }
            }
            recorder?.finish()
            try await writer.finish(nil)
        }
    }

    private func next() async throws -> UpstreamExchange.Batch {
        do throws(ProxyFailure) {
            return try await exchange.next()
        } catch {
            let isOurs = peer.hasLeft || error.cause == .client
            permit.report(
                OutcomeReport(
                    outcome: isOurs ? .ignore : .error, latencyMilliseconds: isOurs ? nil : latencyMilliseconds,
                    status: isOurs ? nil : Int(head.status.code)))
            throw BrokenOff()
        }
    }

    /// The answer to `HEAD`. One that does not say the length of the body would be taken for one in chunks, and their end
    /// would be sent: then the connection is closed instead.
    private func headOnly(_ fields: inout HTTPFields) -> ResponseBody {
        let hasFraming = fields.contains(.contentLength) || !head.status.mayHaveResponseBody
        if hasFraming { return ResponseBody() }
        fields[.connection] = "close"
        return ResponseBody { _ in throw BrokenOff() }
    }

    /// The end that follows the head of an answer to `HEAD` at once is not waited for.
    private func finishWithoutBody() {
        peer.forget(observer)
        reportGood()
    }

    func reportGood() {
        permit.report(
            OutcomeReport(
                outcome: .ok, latencyMilliseconds: latencyMilliseconds, status: Int(head.status.code),
                retryAfterMilliseconds: retryAfterMilliseconds))
    }
}

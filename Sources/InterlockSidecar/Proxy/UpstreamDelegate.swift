internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1

/// Tells an exchange what becomes of a request without a body. No task, no thread change: it is the way of most calls.
final class UpstreamDelegate: HTTPClientResponseDelegate {
    typealias Response = Void

    private let exchange: UpstreamExchange

    init(exchange: UpstreamExchange) {
        self.exchange = exchange
    }

    func didSendRequestHead(task: HTTPClient.Task<Void>, _ head: HTTPRequestHead) { exchange.sentHead() }

    func didSendRequest(task: HTTPClient.Task<Void>) { exchange.sentAll() }

    func didReceiveHead(task: HTTPClient.Task<Void>, _ head: HTTPResponseHead) -> EventLoopFuture<Void> {
        exchange.received(head)
        return task.eventLoop.makeSucceededVoidFuture()
    }

    func didReceiveBodyPart(task: HTTPClient.Task<Void>, _ buffer: ByteBuffer) -> EventLoopFuture<Void> {
        exchange.received(buffer)
    }

    func didReceiveError(task: HTTPClient.Task<Void>, _ error: any Error) { exchange.ended(.failure(error)) }

    func didFinishRequest(task: HTTPClient.Task<Void>) throws { exchange.ended(.success(())) }
}

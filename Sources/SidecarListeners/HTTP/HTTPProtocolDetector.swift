internal import InterlockHTTP
internal import NIOCore
internal import NIOTLS

/// Detects a client's protocol, then installs its handlers: HTTP/2 if TLS negotiated it (RFC 7301) or if the client
/// begins with the preface (RFC 9113, section 3.3), and HTTP/1.1 otherwise. Confined to the coordinator's event loop.
final class HTTPProtocolDetector: TimedConnection, RemovableChannelHandler, HTTPListenerConnection {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private let listener: HTTPListenerContext
    private let slotKind: HTTPListenerContext.SlotKind
    private let slices: ConnectionSlices
    var context: ChannelHandlerContext?
    var timer: LazyTimer?
    let firstRequestDeadline: NIODeadline
    private var received = ByteBuffer()
    /// Whether the protocol's handlers are installed, or are being installed.
    private var hasBegun = false

    init(listener: HTTPListenerContext, slotKind: HTTPListenerContext.SlotKind, slices: ConnectionSlices) {
        self.listener = listener
        self.slotKind = slotKind
        self.slices = slices
        firstRequestDeadline = listener.now + listener.firstRequestTimeout(at: slotKind)
    }

    func deadlineReached() { close() }

    func connectionEnded() { listener.connectionClosed(self) }

    private func close() { context?.close(promise: nil) }

    /// Closes the connection immediately: a client that has not begun a request cannot delay the shutdown.
    func shutDown() { close() }

    func closeIfKeyRevoked(_ isRemoved: (AccessControl.Caller) -> Bool) {}

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard self.context != nil else { return context.fireChannelRead(data) }
        received.append(unread: unwrapInboundIn(data))
        guard !hasBegun else { return }
        guard Self.preface.starts(with: received.readableBytesView.prefix(Self.preface.count)) else {
            return begin(isHTTP2: false)
        }
        if received.readableBytes >= Self.preface.count { begin(isHTTP2: true) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted(let agreed) where agreed == HTTPProtocol.http2: begin(isHTTP2: true)
        // The client has closed its side without a request.
        case ChannelEvent.inputClosed: close()
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { close() }

    private func begin(isHTTP2: Bool) {
        guard let context, !hasBegun else { return }
        // If the first write fails, NIO drains the socket immediately, while the handlers are being installed.
        hasBegun = true
        do {
            let connection: any HTTPListenerConnection =
                isHTTP2
                ? try HTTP2Connection.installOnConnection(
                    context.channel, listener: listener, slotKind: slotKind, slices: slices,
                    firstRequestDeadline: firstRequestDeadline)
                : try HTTPConnection.installOnConnection(
                    context.channel, listener: listener, slotKind: slotKind, slices: slices,
                    firstRequestDeadline: firstRequestDeadline)
            // The new connection is registered before this one is removed, so that no other client takes the slot.
            listener.connectionOpened(connection)
        } catch {
            return close()
        }
        guard self.context != nil else { return }
        end()
        if received.readableBytes > 0 {
            context.fireChannelRead(wrapInboundOut(received))
            context.fireChannelReadComplete()
        }
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }
}

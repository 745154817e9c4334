import ArgumentParser
import NIOCore
import NIOPosix

/// One connection to a sidecar's RESP door. Confined to its event loop.
final class SidecarLink: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var owner: (any SidecarLinkOwner)?
    private var context: ChannelHandlerContext?
    private var replies = SidecarReplyReader()

    private init(owner: any SidecarLinkOwner) {
        self.owner = owner
    }

    /// Begins to connect; the owner hears of it. Called on the event loop.
    static func open(
        to endpoint: BenchmarkedSidecar, on eventLoop: any EventLoop, owner: any SidecarLinkOwner
    ) -> SidecarLink {
        let link = SidecarLink(owner: owner)
        let linkOnLoop = NIOLoopBound(link, eventLoop: eventLoop)
        ClientBootstrap(group: eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(linkOnLoop.value)
                }
            }
            .connect(host: endpoint.host, port: endpoint.port)
            .assumeIsolated()
            .whenFailure { link.isLost($0) }
        return link
    }

    /// Sends now.
    func send(_ command: ByteBuffer) {
        context?.writeAndFlush(wrapOutboundOut(command), promise: nil)
    }

    /// Sends with the next flush; there is one after each read.
    func sendLater(_ command: ByteBuffer) {
        context?.write(wrapOutboundOut(command), promise: nil)
    }

    func flush() {
        context?.flush()
    }

    /// The owner hears no more.
    func close() {
        owner = nil
        context?.close(promise: nil)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        owner?.linkIsUp()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        replies.append(unwrapInboundIn(data))
        do {
            while let reply = try replies.next() { owner?.received(reply) }
        } catch {
            errorCaught(context: context, error: error)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.flush()
    }

    func channelInactive(context: ChannelHandlerContext) {
        isLost(BenchmarkFailure("a sidecar closed the connection"))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        isLost(error)
        context.close(promise: nil)
    }

    private func isLost(_ error: any Error) {
        let owner = self.owner
        self.owner = nil
        owner?.linkIsLost(error)
    }
}

/// Whoever a link to a sidecar belongs to. Called on the link's event loop.
protocol SidecarLinkOwner: AnyObject {
    func linkIsUp()
    func received(_ reply: SidecarReply)
    /// Once, at the end, unless the owner closed the link itself.
    func linkIsLost(_ error: any Error)
}

/// Where a sidecar's RESP door is: `HOST:PORT`.
struct BenchmarkedSidecar: ExpressibleByArgument, Sendable {
    var host: String
    var port: Int

    init?(argument: String) {
        guard let colon = argument.lastIndex(of: ":"), let port = Int(argument[argument.index(after: colon)...]),
            (1...65535).contains(port)
        else { return nil }
        host = String(argument[..<colon])
        self.port = port
    }
}

internal import NIOCore
internal import NIOHPACK
internal import NIOHTTP2

/// Converts a Host field to `:authority` if the client sends only Host, as HAProxy and nghttpx do (RFC 9113, section
/// 8.3.1). If both are present and equal, drops Host. If they differ, passes both on as Host fields, so that the
/// request is rejected: NIO's codec would drop `:authority`.
final class HTTP2RequestHost: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame.FramePayload
    typealias InboundOut = HTTP2Frame.FramePayload

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .headers(var head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
        guard Self.normalize(&head.headers) else { return context.fireChannelRead(data) }
        context.fireChannelRead(wrapInboundOut(.headers(head)))
    }

    /// Converts or removes `host` in a request's fields.
    /// - Returns: whether the fields were changed.
    private static func normalize(_ fields: inout HPACKHeaders) -> Bool {
        let hosts = fields["host"]
        guard hosts.count == 1, let host = hosts.first else { return false }
        if let authority = fields.first(name: ":authority") {
            if authority.lowercased() == host.lowercased() {
                fields.remove(name: "host")
            } else {
                fields.add(name: "host", value: authority)
            }
            return true
        }
        // Trailers have no `:method`, and stay unchanged.
        guard fields.contains(name: ":method") else { return false }
        var normalized = HPACKHeaders([(":authority", host)])
        for (name, value, indexing) in fields where name != "host" {
            normalized.add(name: name, value: value, indexing: indexing)
        }
        fields = normalized
        return true
    }
}

import NIOCore
import NIOHPACK

/// A strict parser of the response to a gRPC call with one message.
struct GRPCResponseReader {
    struct ParseError: Error {
        var reason: String
    }

    private enum Stage {
        case head
        /// Collects the message that follows the head.
        case body(ByteBuffer)
    }

    private var stage = Stage.head

    /// Reads a head or trailers. Returns the response if it is complete.
    mutating func read(_ fields: HPACKHeaders, isLast: Bool) throws(ParseError) -> GRPCWireConnection.Response? {
        switch stage {
        case .head:
            guard fields.first(name: ":status") == "200" else {
                throw ParseError(reason: ":status is \(fields.first(name: ":status") ?? "missing")")
            }
            guard fields.first(name: "content-type") == "application/grpc" else {
                throw ParseError(reason: "content-type is \(fields.first(name: "content-type") ?? "missing")")
            }
            if isLast { return try response(fields, ByteBuffer()) }
            stage = .body(ByteBuffer())
            return nil
        case .body(let bytes):
            guard isLast else { throw ParseError(reason: "a second head before the end of the answer") }
            return try response(fields, bytes)
        }
    }

    /// Reads a part of the message.
    mutating func read(_ part: ByteBuffer, isLast: Bool) throws(ParseError) -> GRPCWireConnection.Response? {
        guard case .body(var bytes) = stage else { throw ParseError(reason: "a message without a head") }
        guard !isLast else { throw ParseError(reason: "the answer ends without grpc-status") }
        stage = .head
        bytes.writeImmutableBuffer(part)
        stage = .body(bytes)
        return nil
    }

    private func response(_ trailers: HPACKHeaders, _ bytes: ByteBuffer) throws(ParseError)
        -> GRPCWireConnection.Response
    {
        let statuses = trailers[canonicalForm: "grpc-status"].map { String($0) }
        guard statuses.count == 1, let status = Int(statuses[0]), (0...16).contains(status) else {
            throw ParseError(reason: "grpc-status is \(statuses)")
        }
        guard status == 0 else {
            guard bytes.readableBytes == 0 else { throw ParseError(reason: "a message before grpc-status \(status)") }
            return (status, nil)
        }
        var bytes = bytes
        guard let flag = bytes.readInteger(as: UInt8.self), let length = bytes.readInteger(as: UInt32.self), flag == 0,
            bytes.readableBytes == Int(length)
        else { throw ParseError(reason: "the answer is not one complete message: \(bytes.readableBytes) bytes") }
        return (0, Array(bytes.readableBytesView))
    }
}

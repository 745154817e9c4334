internal import NIOCore
internal import SwiftProtobuf

/// A message that can be written to a buffer.
protocol GRPCMessage {
    func write(to buffer: inout ByteBuffer) throws
}

extension GRPCMessage where Self: Message {
    func write(to buffer: inout ByteBuffer) throws { buffer.writeBytes(try serializedBytes() as [UInt8]) }
}

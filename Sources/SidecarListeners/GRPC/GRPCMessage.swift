internal import NIOCore
internal import SwiftProtobuf

/// What can be written as a message.
protocol GRPCMessage {
    func write(to buffer: inout ByteBuffer) throws
}

extension GRPCMessage where Self: Message {
    func write(to buffer: inout ByteBuffer) throws { buffer.writeBytes(try serializedBytes() as [UInt8]) }
}

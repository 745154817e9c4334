internal import NIOCore
internal import NIOHTTP1

/// Encodes the messages of one side of an HTTP/1.1 connection (RFC 9112), framed as NIO's encoders frame them. Pure.
///
/// A small message becomes one buffer. In heads and trailers, the bytes that `OpaqueText` escapes are restored.
struct MessageEncoder {
    /// The maximum length of a body part that is copied, in bytes.
    private static let maximumCopiedLength = 4096
    /// The size of the buffered messages, in bytes, at which they are written without a flush. One message may exceed
    /// it.
    private static let maximumBuffered = 16_384
    /// The space for a head and a small body after it, in bytes.
    private static let headSpace = 2048

    private var isChunked = false
    private var encoded = ByteBuffer()

    var isEmpty: Bool { encoded.readableBytes == 0 }
    /// Whether the caller should write the encoded bytes without waiting for a flush: the channel counts only written
    /// bytes.
    var isFull: Bool { encoded.readableBytes >= Self.maximumBuffered }

    /// Returns everything encoded since the last call.
    mutating func take() -> ByteBuffer {
        let taken = encoded
        encoded = ByteBuffer()
        return taken
    }

    // MARK: Heads

    mutating func append(_ head: HTTPResponseHead) {
        let framing = Framing(head.headers, head.version, head.status.mayHaveResponseBody ? .always : .never)
        isChunked = framing.isChunked
        appendText { writer in
            writer.write(head.version.hasChunks ? "HTTP/1.1 " : "HTTP/1.0 ")
            writer.write(String(head.status.code))
            writer.write(" ")
            writer.write(head.status.reasonPhrase)
            writer.endLine()
            framing.write(head.headers, with: &writer)
        }
    }

    mutating func append(_ head: HTTPRequestHead) {
        let framing = Framing(head.headers, head.version, .init(of: head.method))
        isChunked = framing.isChunked
        appendText { writer in
            writer.write(head.method.rawValue)
            writer.write(" ")
            writer.write(head.uri)
            writer.write(head.version.hasChunks ? " HTTP/1.1" : " HTTP/1.0")
            writer.endLine()
            framing.write(head.headers, with: &writer)
        }
    }

    /// Appends a head or trailers, and restores the bytes that `OpaqueText` escaped.
    /// - Parameter write: writes the text; runs again with more space if the text did not fit.
    private mutating func appendText(_ write: (inout TextWriter) -> Void) {
        let start = encoded.writerIndex
        var neededLength = Self.headSpace
        var writtenLength = 0
        repeat {
            encoded.writeWithUnsafeMutableBytes(minimumWritableBytes: neededLength) { space in
                var writer = TextWriter(space)
                write(&writer)
                neededLength = writer.length
                writtenLength = neededLength <= space.count ? neededLength : 0
                return writtenLength
            }
        } while writtenLength < neededLength
        guard let text = encoded.viewBytes(at: start, length: writtenLength),
            text.withUnsafeBytes(OpaqueText.hasHighBits)
        else { return }
        encoded.moveWriterIndex(to: start)
        encoded.writeBytes(OpaqueText.bytes(of: text))
    }

    // MARK: Bodies

    /// Appends part of a body.
    /// - Returns: `false` if the caller must write the part itself, after the encoded bytes and before
    ///   `appendEndOfPart`.
    mutating func append(_ part: IOData) -> Bool {
        let length = part.readableBytes
        guard length > 0 else { return true }
        if isChunked { encoded.writeString(String(length, radix: 16) + "\r\n") }
        guard length <= Self.maximumCopiedLength, case .byteBuffer(let bytes) = part else { return false }
        encoded.writeImmutableBuffer(bytes)
        appendEndOfPart()
        return true
    }

    /// Appends the line end after a chunk.
    mutating func appendEndOfPart() {
        if isChunked { encoded.writeStaticString("\r\n") }
    }

    /// Appends the last chunk and the trailers.
    mutating func appendEnd(_ trailers: HTTPHeaders?) {
        guard isChunked else { return }
        encoded.writeStaticString("0\r\n")
        guard let trailers else { return appendEndOfPart() }
        appendText { Framing().write(trailers, with: &$0) }
    }
}

/// The body framing, derived from a head's fields.
private struct Framing {
    /// Whether a message's fields must frame a body.
    enum BodyRule {
        case never, always
        /// A body only if the fields declare one.
        case declared

        init(of method: HTTPMethod) {
            switch method {
            case .TRACE: self = .never
            case .POST, .PUT, .PATCH: self = .always
            default: self = .declared
            }
        }
    }

    private static let length = "content-length"
    private static let coding = "transfer-encoding"

    private(set) var isChunked = false
    private var dropsLength = false
    private var dropsCoding = false
    private var addsCoding = false

    /// Creates the framing of trailers, which adds and drops no fields.
    init() {}

    init(_ fields: HTTPHeaders, _ version: HTTPVersion, _ body: BodyRule) {
        let hasLength = body != .never && fields.contains(name: Self.length)
        dropsLength = body == .never
        dropsCoding = body == .never || hasLength || body == .always && version.hasChunks
        addsCoding = body == .always && !hasLength && version.hasChunks
        isChunked =
            addsCoding || body == .declared && !hasLength && version.hasChunks && fields.first(name: Self.coding) == "chunked"
    }

    /// Writes the fields for this framing, then the empty line.
    func write(_ fields: HTTPHeaders, with writer: inout TextWriter) {
        for (name, value) in fields {
            if dropsLength, Self.isName(name, Self.length) { continue }
            if dropsCoding, Self.isName(name, Self.coding) { continue }
            writer.write(name)
            writer.write(": ")
            writer.write(value)
            writer.endLine()
        }
        if addsCoding {
            writer.write("transfer-encoding: chunked")
            writer.endLine()
        }
        writer.endLine()
    }

    private static func isName(_ name: String, _ lowercase: String) -> Bool {
        name.utf8.count == lowercase.utf8.count && name.utf8.elementsEqual(lowercase.utf8) { $0 | 0x20 == $1 }
    }
}

extension HTTPVersion {
    /// Whether messages of this version may be chunked.
    fileprivate var hasChunks: Bool { self != .http1_0 && self != .http0_9 }
}

/// Writes text into memory while it fits, and counts every byte.
private struct TextWriter {
    private let space: UnsafeMutableRawBufferPointer
    /// The length of all written text, in bytes, including text that did not fit.
    private(set) var length = 0

    init(_ space: UnsafeMutableRawBufferPointer) {
        self.space = space
    }

    mutating func write(_ text: String) {
        let isWritten: Void? = text.utf8.withContiguousStorageIfAvailable { write(UnsafeRawBufferPointer($0)) }
        if isWritten == nil { Array(text.utf8).withUnsafeBytes { write($0) } }
    }

    private mutating func write(_ bytes: UnsafeRawBufferPointer) {
        if length + bytes.count <= space.count, let source = bytes.baseAddress, let target = space.baseAddress {
            (target + length).copyMemory(from: source, byteCount: bytes.count)
        }
        length += bytes.count
    }

    mutating func endLine() {
        if length + 2 <= space.count { space.storeBytes(of: UInt16(bigEndian: 0x0D0A), toByteOffset: length, as: UInt16.self) }
        length += 2
    }
}

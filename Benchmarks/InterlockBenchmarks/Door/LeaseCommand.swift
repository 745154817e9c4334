import NIOCore

/// The commands of leases, as the bytes that a client sends.
enum LeaseCommand {
    static func acquire(_ lock: String, ttl: Int, _ options: String...) -> ByteBuffer {
        encoded(["LOCK.ACQUIRE", lock, String(ttl)] + options)
    }

    static func renew(_ lock: String, token: String, ttl: Int) -> ByteBuffer {
        encoded(["LOCK.RENEW", lock, token, String(ttl)])
    }

    static func release(_ lock: String, token: String) -> ByteBuffer {
        encoded(["LOCK.RELEASE", lock, token])
    }

    private static func encoded(_ words: [String]) -> ByteBuffer {
        var bytes = ByteBuffer()
        bytes.writeString("*\(words.count)\r\n")
        for word in words { bytes.writeString("$\(word.utf8.count)\r\n\(word)\r\n") }
        return bytes
    }
}

package import NIOCore
package import NIOHTTP1

extension HTTPHeaders {
    /// Whether `Content-Length` is absent, or present once and all digits. The HTTP/1.1 decoder checks this; the HTTP/2
    /// decoder does not.
    package var hasValidContentLength: Bool {
        let lengths = self["Content-Length"]
        return lengths.count < 2
            && lengths.allSatisfy { !$0.isEmpty && $0.utf8.count <= 18 && $0.utf8.allSatisfy { 48...57 ~= $0 } }
    }

    /// The first transfer coding that is not supported, which NIO's decoders would silently drop (RFC 9112, section
    /// 6.1); `nil` if all are supported. `identity`, which some servers still send, is ignored.
    package var unsupportedTransferCoding: String? {
        guard contains(name: "Transfer-Encoding") else { return nil }
        let codings = self[canonicalForm: "Transfer-Encoding"]
        var hasChunks = false
        for coding in codings.map({ $0.lowercased() }) where coding != "identity" && !coding.isEmpty {
            guard coding == "chunked", !hasChunks else { return coding }
            hasChunks = true
        }
        return nil
    }

    /// The time for which the server keeps an unused connection, from `Keep-Alive`; `nil` if the field has no valid
    /// timeout.
    package var keepAliveTimeout: TimeAmount? {
        guard contains(name: "Keep-Alive") else { return nil }
        for parameter in self["Keep-Alive"].flatMap({ $0.split(separator: ",") }) {
            let words = parameter.split(separator: "=", maxSplits: 1).map { $0.filter { $0 != " " && $0 != "\t" } }
            guard words.count == 2, words[0].lowercased() == "timeout", let seconds = Int64(words[1]), seconds >= 0 else {
                continue
            }
            return .seconds(Swift.min(seconds, 86_400))
        }
        return nil
    }
}

/// A host and a port: `127.0.0.1:7379`, `[::1]:7379`, `localhost:0`.
package struct SocketEndpoint: Hashable, Sendable, CustomStringConvertible {
    /// The host: a name, an IPv4 address, or an IPv6 address without its brackets.
    package var host: String
    /// The port, 0–65535; 0 lets the system choose a free one.
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    package var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// Whether only this host can reach the endpoint. An unusual spelling of a loopback address does not count as
    /// loopback.
    package var isLoopback: Bool {
        switch host.lowercased() {
        case "localhost", "::1", "0:0:0:0:0:0:0:1": true
        case let host: Self.octets(of: host)?.first == 127
        }
    }
}

extension SocketEndpoint {
    /// Parses `HOST:PORT` or `[IPv6]:PORT`.
    /// - Throws: `InvalidConfigurationValue`, which describes the text expected instead.
    package init(parsing text: String) throws(InvalidConfigurationValue) {
        let expectation = InvalidConfigurationValue("HOST:PORT such as 127.0.0.1:7379 or [::1]:7379, port 0-65535")
        guard let colon = text.lastIndex(of: ":") else { throw expectation }
        let digits = text[text.index(after: colon)...]
        guard digits.utf8.count <= 5, let port = ConfigurationText.wholeNumber(digits), port <= 65_535 else {
            throw expectation
        }
        let host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            let address = host.dropFirst().dropLast()
            guard Self.isIPv6Like(address) else { throw expectation }
            self.init(host: String(address), port: Int(port))
        } else {
            guard Self.isHostName(host) else { throw expectation }
            self.init(host: String(host), port: Int(port))
        }
    }

    /// Returns whether the text has only letters, digits, hyphens, underscores and dots, like host names and IPv4
    /// addresses.
    package static func isHostName(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.count <= 253
            && text.unicodeScalars.allSatisfy { scalar in
                switch scalar {
                case "a"..."z", "A"..."Z", "0"..."9", "-", "_", ".": true
                default: false
                }
            }
    }

    /// Returns whether the text resembles an IPv6 address. A rough check suffices, because the system validates the
    /// address when it binds the socket.
    private static func isIPv6Like(_ text: Substring) -> Bool {
        text.contains(":") && text.utf8.count <= 64
            && text.unicodeScalars.allSatisfy { scalar in
                switch scalar {
                case "a"..."z", "A"..."Z", "0"..."9", ":", ".", "%", "_", "-": true
                default: false
                }
            }
    }

    /// Returns the four numbers of a dotted IPv4 address in its usual spelling; `nil` for other text.
    private static func octets(of host: String) -> [UInt8]? {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        let octets = parts.compactMap { part in
            part.first == "0" && part.count > 1 ? nil : UInt8(part)
        }
        return parts.count == 4 && octets.count == 4 ? octets : nil
    }
}

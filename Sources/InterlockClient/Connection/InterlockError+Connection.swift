internal import InterlockCore
internal import RedisClient

extension InterlockError {
    /// Converts an error of the underlying Redis client.
    init(_ error: RedisError, _ configuration: SidecarClientConfiguration) {
        let address = configuration.address
        switch error.code {
        case .server(let condition):
            let word = condition.rawValue + " "
            let sentence = error.message.firstRange(of: word).map { error.message[$0.upperBound...] } ?? error.message[...]
            self.init(Code(rawValue: condition.rawValue), String(sentence), isFromSidecar: true)
        case .notConnected:
            self.init(.notConnected, "there is no connection to the sidecar at \(address)")
        case .overloaded:
            self.init(.overloaded, "\(configuration.maximumInFlight) calls to the sidecar at \(address) already await answers")
        case .timedOut:
            self.init(.responseTimedOut, "the sidecar at \(address) did not answer in time; the call may have been executed")
        case .replyLost:
            self.init(
                .responseLost,
                "the connection to the sidecar at \(address) was lost before the answer; the call may have been executed")
        case .connectionFailed:
            let name = configuration.redisConfiguration.displayName
            let sidecar = "the sidecar at \(address)"
            let message =
                error.message.contains(name)
                ? error.message.replacing(name, with: sidecar) : "cannot connect to \(sidecar): \(error.message)"
            self.init(.connectionFailed, message)
        case .protocolViolation where error == .httpPeer:
            self.init(
                .invalidResponse,
                "\(address.port.map { "\($0)" } ?? "\(address)") is the HTTP port; use the RESP port, for example \(SidecarAddress.standard)"
            )
        case .protocolViolation where error == .tlsPeer:
            self.init(.invalidResponse, "\(address) requires TLS; use rediss://\(address)")
        case .protocolViolation, .unexpectedReply:
            self.init(
                .invalidResponse,
                "the server at \(address) is not an Interlock sidecar: \(error.message); check the address and port")
        }
    }
}

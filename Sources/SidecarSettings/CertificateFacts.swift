internal import Glibc
import InterlockCore
internal import NIOCore
internal import NIOSSL

/// The properties of a certificate that an operator may get wrong: its host names and its validity.
package struct CertificateFacts: Equatable {
    /// The host names, in lower case, and the IP addresses.
    package var names: [String]
    /// The start and the end of the validity, as Unix time in seconds.
    var validity: ClosedRange<Int>

    init(names: [String], validity: ClosedRange<Int>) {
        self.names = names
        self.validity = validity
    }

    /// Reads the first certificate of a PEM file. Returns `nil` if the file contains no certificate.
    package init?(file: String) {
        guard let certificate = try? NIOSSLCertificate.fromPEMFile(file).first else { return nil }
        let start = Int(certificate.notValidBefore)
        self.init(
            names: certificate._subjectAlternativeNames().compactMap(Self.hostName),
            validity: start...max(start, Int(certificate.notValidAfter)))
    }

    /// Returns a host name in lower case, or an IP address; `nil` for another kind of name.
    private static func hostName(_ name: _SubjectAlternativeName) -> String? {
        let bytes = name.contents.withUnsafeBufferPointer { Array($0) }
        switch name.nameType {
        case .dnsName: return String(decoding: bytes, as: UTF8.self).lowercased()
        case .ipAddress: return (try? SocketAddress(packedIPAddress: ByteBuffer(bytes: bytes), port: 0))?.ipAddress
        default: return nil
        }
    }

    /// Returns whether the certificate is valid for this host. An asterisk matches one label.
    package func covers(_ host: String) -> Bool {
        let host = host.lowercased()
        let wildcard = host.firstIndex(of: ".").map { "*" + host[$0...] }
        return names.contains { $0 == host || $0 == wildcard }
    }

    /// Returns the reasons why clients would reject the certificate, one sentence each.
    /// - Parameters:
    ///   - hosts: the hosts that clients are known to call.
    ///   - unixSeconds: the current time.
    func warnings(for hosts: [String], unixSeconds: Int) -> [String] {
        var warnings: [String] = []
        if unixSeconds > validity.upperBound {
            let age = Self.days(unixSeconds - validity.upperBound)
            warnings.append("listen.tls.certificate expired \(age) ago; clients reject it")
        } else if unixSeconds < validity.lowerBound {
            warnings.append("listen.tls.certificate is not valid yet; clients reject it")
        }
        let uncoveredHosts = hosts.filter { !covers($0) }
        if !uncoveredHosts.isEmpty {
            let hostList = uncoveredHosts.joined(separator: ", ")
            warnings.append(
                "listen.tls.certificate is not valid for \(hostList), which clients call; it is valid for "
                    + (names.isEmpty ? "no host" : names.joined(separator: ", ")))
        }
        return warnings
    }

    private static func days(_ seconds: Int) -> String {
        let days = seconds / 86_400
        return days == 1 ? "1 day" : days > 1 ? "\(days) days" : "less than a day"
    }

    /// Returns the names of `other` that this certificate does not cover.
    package func names(missingComparedTo other: CertificateFacts) -> [String] {
        other.names.filter { !covers($0) && !names.contains($0) }
    }
}

extension ListenSettings {
    /// The hosts that clients are known to call: `listen.hosts`, and the addresses of listeners reachable from other
    /// hosts.
    var calledHosts: [String] {
        let listeners = [resp, http] + [grpc].compactMap(\.self)
        let addresses = listeners.filter { !$0.isLoopback && !["0.0.0.0", "::"].contains($0.host) }.map(\.host)
        return (hosts + addresses).reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
    }

    /// Returns the reasons why clients would reject the certificate, one sentence each.
    func certificateWarnings() -> [String] {
        guard let tls, let facts = CertificateFacts(file: tls.certificate) else { return [] }
        return facts.warnings(for: calledHosts, unixSeconds: time(nil))
    }
}

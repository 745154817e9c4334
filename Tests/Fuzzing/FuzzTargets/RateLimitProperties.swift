internal import EnvoyMessages
internal import InterlockCore
internal import SidecarListeners
internal import NIOCore
internal import SwiftProtobuf

/// The fast reader of Envoy's requests agrees with the generated type on every field, or leaves the request to it.
enum RateLimitProperties {
    private typealias Request = Envoy_Service_Ratelimit_V3_RateLimitRequest

    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        let message = ByteBuffer(bytes: input)
        let count = message.countOfProtobufFields(2)
        let request = try? Request(serializedBytes: input)
        if let request {
            try expect(count >= request.descriptors.count, "\(count) of \(request.descriptors.count) descriptors were counted")
        }
        guard let question = RateLimitQuery(plain: message) else { return }
        guard let request else { throw FuzzFinding("an invalid request was read as \(question)") }
        let requested = request.descriptors.compactMap { RequestedDescriptor($0, hits: request.hitsAddend) }
        let expected = RateLimitQuery(domain: request.domain, requested: requested)
        try expect(question == expected, "\(request.textFormatString()) was read as \(question)")
        try expect(count == requested.count, "\(count) of \(requested.count) descriptors were counted")
    }
}

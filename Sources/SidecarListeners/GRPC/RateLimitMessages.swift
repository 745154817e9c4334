internal import EnvoyMessages
internal import Interlock
package import InterlockCore
package import NIOCore
internal import SidecarTelemetry

// These types read and write Envoy's rate limit messages field by field, because the generated types took a seventh of
// a call's cost. The field numbers are those of `rls.proto`, and the output matches that of the generated types byte
// for byte.

/// A `RateLimitRequest` in its usual form: a domain, hits, and descriptors with nothing but entries.
package struct RateLimitQuery: Equatable {
    package let domain: String
    package let requested: [RequestedDescriptor]

    /// Reads a message; `nil` if it has other fields or is invalid. The generated type must then decode it.
    package init?(plain message: ByteBuffer) {
        guard let query = message.withUnsafeReadableBytes(Self.read) else { return nil }
        self = query
    }

    package init(domain: String, requested: [RequestedDescriptor]) {
        self.domain = domain
        self.requested = requested
    }

    private static func read(_ bytes: UnsafeRawBufferPointer) -> RateLimitQuery? {
        var reader = ProtobufReader(bytes)
        var domain = ""
        var hits: UInt64 = 0
        var requested: [RequestedDescriptor] = []
        while !reader.isAtEnd {
            switch reader.varint() {
            case ProtobufTag.content(1):
                guard let text = reader.text() else { return nil }
                domain = text
            case ProtobufTag.content(2):
                guard requested.count < RateLimitService.maximumDescriptors, let content = reader.content(),
                    let entries = entries(content)
                else { return nil }
                requested.append(RequestedDescriptor(entries: entries))
            case ProtobufTag.number(3):
                guard let number = reader.varint() else { return nil }
                hits = number
            default: return nil
            }
        }
        guard !domain.isEmpty, !requested.isEmpty, hits <= UInt64(UInt32.max) else { return nil }
        if hits > 1 { for index in requested.indices { requested[index].cost = Int64(hits) } }
        return RateLimitQuery(domain: domain, requested: requested)
    }

    private static func entries(_ bytes: UnsafeRawBufferPointer) -> [DescriptorEntry]? {
        var reader = ProtobufReader(bytes)
        var entries: [DescriptorEntry] = []
        while !reader.isAtEnd {
            guard reader.varint() == ProtobufTag.content(1), entries.count < DescriptorEntry.maximumCount,
                let content = reader.content(),
                let entry = entry(content)
            else { return nil }
            entries.append(entry)
        }
        return entries
    }

    private static func entry(_ bytes: UnsafeRawBufferPointer) -> DescriptorEntry? {
        var reader = ProtobufReader(bytes)
        var entry = DescriptorEntry(key: "", value: "")
        while !reader.isAtEnd {
            let tag = reader.varint()
            guard tag == ProtobufTag.content(1) || tag == ProtobufTag.content(2), let text = reader.text() else { return nil }
            if tag == ProtobufTag.content(1) { entry.key = text } else { entry.value = text }
        }
        return entry
    }
}

/// A `RateLimitResponse`.
struct RateLimitResponse: GRPCMessage {
    private typealias Code = Envoy_Service_Ratelimit_V3_RateLimitResponse.Code
    private typealias Unit = Envoy_Service_Ratelimit_V3_RateLimitResponse.RateLimit.Unit

    /// The header field that gives Envoy's callers the cause of a refusal.
    private static let causeField = "Interlock-Cause"

    let decision: RequestDecision

    init(_ decision: RequestDecision) {
        self.decision = decision
    }

    func write(to buffer: inout ByteBuffer) {
        var writer = ProtobufWriter(capacity: 64 + 128 * decision.statuses.count)
        writer.write(1, Self.code(decision.isOverLimit))
        // If requests are denied because Redis is down, the remaining quota is unknown.
        let isQuotaKnown = decision.cause != .redis
        for status in decision.statuses {
            writer.write(2) { Self.write(status, isQuotaKnown: isQuotaKnown, to: &$0) }
        }
        if decision.isOverLimit {
            writer.write(3) { header in
                header.write(1, Self.causeField)
                header.write(2, decision.cause.rawValue)
            }
        }
        // Envoy's callers see the binding limit: one that refuses, or else the one with the lowest remaining quota.
        // After a refusal, the time is that until the next retry.
        if isQuotaKnown, let binding = decision.binding, case .limited(let limit, let window) = binding.bound {
            let name = Self.name(binding)
            writer.write(3) { header in
                header.write(1, "RateLimit")
                header.write(
                    2,
                    text: {
                        let retryAfterMilliseconds = binding.isOverLimit ? binding.retryAfterMilliseconds : nil
                        let milliseconds = retryAfterMilliseconds ?? binding.resetAfterMilliseconds
                        RateLimitFields.writeCurrent(name, remaining: binding.remaining, timeMilliseconds: milliseconds, to: &$0)
                    })
            }
            writer.write(3) { header in
                header.write(1, "RateLimit-Policy")
                header.write(
                    2,
                    text: {
                        RateLimitFields.writePolicy(
                            name, limit: limit, windowMilliseconds: window.wholeMilliseconds, to: &$0)
                    })
            }
        }
        buffer.writeBytes(writer.bytes)
    }

    private static func write(_ status: DescriptorStatus, isQuotaKnown: Bool, to writer: inout ProtobufWriter) {
        writer.write(1, code(status.isOverLimit))
        guard isQuotaKnown else { return }
        switch status.bound {
        case .none: break
        case .unlimited: writer.write(3, UInt64(UInt32.max))
        case .limited(let limit, let window):
            // Envoy derives the fields that its callers see from the status with the lowest remaining quota, among
            // those with a current limit. A shadow limit gets none, because it refuses no call.
            if !status.isShadow {
                writer.write(2) {
                    $0.write(1, UInt64(UInt32(clamping: limit)))
                    $0.write(2, UInt64(Unit(window).rawValue))
                    $0.write(3, name(status))
                }
            }
            writer.write(3, UInt64(UInt32(clamping: status.remaining)))
            writer.write(4) {
                let milliseconds = UInt64(max(0, status.resetAfterMilliseconds))
                $0.write(1, milliseconds / 1000)
                $0.write(2, milliseconds % 1000 * 1_000_000)
            }
        }
    }

    private static func code(_ isOverLimit: Bool) -> UInt64 { UInt64((isOverLimit ? Code.overLimit : .ok).rawValue) }

    /// Returns the name of the limit that a status describes. A limit without a rule came with the request.
    private static func name(_ status: DescriptorStatus) -> String { status.rule.map { $0.rule.name ?? $0.path } ?? "request" }
}

public import FoundationEssentials
public import InterlockCore
package import RedisClient

/// A recent grant of a lock through a sidecar.
public struct SidecarGrant: Hashable, Sendable {
    /// The lock's name.
    public var name: String
    /// The holder's label.
    public var label: String
    /// The mode in which the lock was held.
    public var mode: LockMode
    /// The fence of this grant.
    public var fence: Int64
    package var grantedMilliseconds: Int64
    /// The time that the holder waited for the lock.
    public var waited: Duration
    package var endedMilliseconds: Int64?
    /// The end of the lease: `released`, `lost` or `lapsed`; `nil` if the lease is still held.
    public var end: String?

    /// The time of the grant, by the clock of the sidecar's host.
    public var grantedAt: Date { Date(epochMilliseconds: grantedMilliseconds) }
    /// The end of the lease, by the clock of the sidecar's host; `nil` if the lease is still held.
    public var endedAt: Date? { endedMilliseconds.map { Date(epochMilliseconds: $0) } }

    /// Decodes a grant's map. Returns `nil` if the reply is not such a map.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let name = fields.text("name"), let label = fields.text("label"),
            let mode = LockMode(fields), let fence = fields.integer("fence"),
            let grantedMilliseconds = fields.integer("granted_ms"),
            let waitedMilliseconds = fields.integer("waited_ms")
        else { return nil }
        self.name = name
        self.label = label
        self.mode = mode
        self.fence = fence
        self.grantedMilliseconds = grantedMilliseconds
        waited = .milliseconds(waitedMilliseconds)
        endedMilliseconds = fields.integer("ended_ms")
        end = fields.text("end")
    }
}

extension LockMode {
    /// Decodes the mode in a lock's map. Returns `nil` if the map has no mode, or if only a newer sidecar knows it.
    fileprivate init?(_ fields: ReplyFields) {
        switch fields.text("mode") {
        case "exclusive": self = .exclusive
        case "shared": self = .shared
        case "permits": self = .permits(Int(fields.integer("permits") ?? 0))
        default: return nil
        }
    }
}

extension LeaseInformation {
    /// Decodes a lease's map. Returns `nil` if the reply is not such a map.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let label = fields.text("label"),
            let ttlMilliseconds = fields.integer("ttl_ms")
        else { return nil }
        self.init(label: label, fence: fields.integer("fence"), ttlMilliseconds: ttlMilliseconds)
    }
}

extension WaitingSidecar {
    /// Decodes a waiting sidecar's map. Returns `nil` if the reply is not such a map.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let id = fields.text("sidecar") else { return nil }
        self.init(id: id, waiters: fields.integer("waiters").map { Int(clamping: $0) })
    }
}

/// The commands `LOCK.*`.
package enum LockCalls {
    /// `LOCK.ACQUIRE name ttl-ms [WAIT ms] [OWNER token] [LABEL text] [LINKED] [SHARED|PERMITS n]`. The reply is the
    /// lease; `nil` if another client holds the lock.
    package struct Acquire: SidecarCall {
        package var name: String
        package var options: LockOptions
        /// Whether the sidecar renews the lease while the connection is open.
        package var isLinked: Bool

        package init(name: String, options: LockOptions, isLinked: Bool = false) {
            self.name = name
            self.options = options
            self.isLinked = isLinked
        }

        package var wait: Duration { options.wait }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.ACQUIRE")
            encoder.append(name)
            encoder.append(options.ttl.wholeMilliseconds)
            if wait > .zero { encoder.append("WAIT", wait) }
            if let owner = options.owner { encoder.append("OWNER", owner) }
            if let label = options.label { encoder.append("LABEL", label) }
            if isLinked { encoder.append("LINKED") }
            switch options.mode {
            case .exclusive: break
            case .shared: encoder.append("SHARED")
            case .permits(let slots):
                encoder.append("PERMITS")
                encoder.append(slots)
            }
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> Lease? {
            if case .null = reply { return nil }
            guard let parts = reply.array, parts.count == 3, let token = parts[0].text, let fence = parts[1].integer,
                let validMilliseconds = parts[2].integer
            else { throw reply.unexpected(for: "LOCK.ACQUIRE") }
            return lease(name, token: token, fence: fence, validMilliseconds: validMilliseconds)
        }

        fileprivate func lease(_ name: String, token: String, fence: Int64, validMilliseconds: Int64) -> Lease {
            Lease(
                name: name, token: token, fence: fence, validMilliseconds: validMilliseconds,
                ttlMilliseconds: options.ttl.wholeMilliseconds, hasOwnerToken: options.owner != nil)
        }
    }

    /// `LOCK.ACQUIRE` with `ALSO count name …`. The reply is all leases; `nil` if another client holds one of the
    /// locks.
    package struct AcquireAll: SidecarCall {
        package var first: Acquire
        package var others: [String]

        package init(first: Acquire, others: [String]) {
            self.first = first
            self.others = others
        }

        package var wait: Duration { first.wait }

        package func encode(into encoder: inout CommandEncoder) {
            first.encode(into: &encoder)
            encoder.append("ALSO")
            encoder.append(others.count)
            for name in others { encoder.append(name) }
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> [Lease]? {
            if case .null = reply { return nil }
            guard let elements = reply.array, elements.count == others.count + 1 else {
                throw reply.unexpected(for: "LOCK.ACQUIRE")
            }
            var leases: [Lease] = []
            for element in elements {
                guard let parts = element.array, parts.count == 4, let name = parts[0].text, let token = parts[1].text,
                    let fence = parts[2].integer, let validMilliseconds = parts[3].integer
                else { throw element.unexpected(for: "LOCK.ACQUIRE") }
                leases.append(first.lease(name, token: token, fence: fence, validMilliseconds: validMilliseconds))
            }
            return leases
        }
    }

    /// `LOCK.RENEW name token ttl-ms [FENCE n]`. The reply is the lease's validity; `nil` if the lease is lost.
    package struct Renew: SidecarCall {
        package var name: String
        package var token: String
        package var ttl: Duration
        package var fence: Int64?

        package init(name: String, token: String, ttl: Duration, fence: Int64? = nil) {
            self.name = name
            self.token = token
            self.ttl = ttl
            self.fence = fence
        }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.RENEW")
            encoder.append(name)
            encoder.append(token)
            encoder.append(ttl.wholeMilliseconds)
            encoder.append(fence: fence)
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> Duration? {
            if case .null = reply { return nil }
            return .milliseconds(try reply.integer(for: "LOCK.RENEW"))
        }
    }

    /// `LOCK.RELEASE name token [FENCE n]`. The reply is whether the token held the lock, with this fence if one was
    /// sent.
    package struct Release: SidecarCall {
        package var name: String
        package var token: String
        package var fence: Int64?

        package init(name: String, token: String, fence: Int64? = nil) {
            self.name = name
            self.token = token
            self.fence = fence
        }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.RELEASE")
            encoder.append(name)
            encoder.append(token)
            encoder.append(fence: fence)
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
            try reply.integer(for: "LOCK.RELEASE") == 1
        }
    }

    /// `LOCK.BREAK name [FENCE n]`. The reply is whether the lock was held, with this fence if one was sent.
    struct Break: SidecarCall {
        var name: String
        var fence: Int64?

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.BREAK")
            encoder.append(name)
            encoder.append(fence: fence)
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
            try reply.integer(for: "LOCK.BREAK") == 1
        }
    }

    /// `LOCK.INFO name`. The reply is `nil` if the lock has neither holders nor waiters.
    struct Inspect: SidecarCall {
        var name: String

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.INFO")
            encoder.append(name)
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> LockInformation? {
            if case .null = reply { return nil }
            guard let fields = ReplyFields(reply), let ttlMilliseconds = fields.integer("ttl_ms") else {
                throw reply.unexpected(for: "LOCK.INFO")
            }
            let label = fields.text("label")
            return LockInformation(
                name: name, label: label, fence: fields.integer("fence"),
                ttlMilliseconds: label == nil ? 0 : ttlMilliseconds, mode: LockMode(fields),
                holders: fields.count("holders"),
                leases: fields.array("leases").compactMap(LeaseInformation.init), waiters: fields.count("waiters"),
                queue: fields.array("queue").compactMap(WaitingSidecar.init))
        }
    }

    /// `LOCK.GRANTS [name]`: lists grants, newest first.
    struct Grants: SidecarCall {
        var name: String?

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.GRANTS")
            if let name { encoder.append(name) }
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> [SidecarGrant] {
            guard let elements = reply.array else { throw reply.unexpected(for: "LOCK.GRANTS") }
            return elements.compactMap { SidecarGrant($0) }
        }
    }

    /// `LOCK.LIST cursor MATCH glob`: returns one page of the names of held locks.
    struct List: SidecarCall {
        /// One page of names, which may repeat those of earlier pages, and the cursor of the next page.
        struct Page: Sendable {
            var cursor: String
            var names: [String]
        }

        var cursor: String
        var glob: String

        /// The cursor that starts a listing and, in a reply, ends it.
        static let start = "0"

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.LIST")
            encoder.append(cursor)
            encoder.append("MATCH", glob)
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> Page {
            guard let parts = reply.array, parts.count == 2, let cursor = parts[0].text, let names = parts[1].array
            else {
                throw reply.unexpected(for: "LOCK.LIST")
            }
            return Page(cursor: cursor, names: names.compactMap(\.text))
        }
    }
}

extension CommandEncoder {
    /// Appends an option with its value.
    mutating func append(_ option: String, _ value: String) {
        append(option)
        append(value)
    }

    /// Appends the option that restricts a call to the grant with this fence. Appends nothing if `fence` is `nil`.
    fileprivate mutating func append(fence: Int64?) {
        guard let fence else { return }
        append("FENCE")
        append(fence)
    }

    /// Appends an option with a time in milliseconds.
    mutating func append(_ option: String, _ time: Duration) {
        append(option)
        append(time.wholeMilliseconds)
    }
}

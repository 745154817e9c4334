package import Hiredis
internal import InterlockCore

/// How a lock is held.
public enum SidecarLockMode: Hashable, Sendable {
    /// By one holder alone.
    case exclusive
    /// By any number of readers, while nobody holds it exclusively.
    case shared
    /// By at most so many holders: a semaphore. All who use the lock give the same number.
    case permits(Int)
}

/// One grant of a lock, for a limited time.
public struct SidecarLease: Hashable, Sendable {
    /// The lock's name.
    public var name: String
    /// What renews and releases the lease: whoever knows it can do both.
    public var token: String
    /// Strictly higher than that of every grant before. Show it to what the lock guards, which refuses a lower one.
    public var fence: Int64
    /// For how long the lease can be relied on from the moment of the answer. Of a call that waited, nobody knows when within
    /// that time it was granted: a holder that must be sure counts from before the request.
    public var validity: Duration
}

/// What anybody may know of a lock.
public struct SidecarLock: Hashable, Sendable {
    /// The lock's name.
    public var name: String
    /// The holder's label, `foreign` if it is no Interlock; `nil`: nobody holds it.
    public var label: String?
    /// The last fence that was granted; `nil`: none within a day.
    public var fence: Int64?
    /// What is left of the lease, of several the longest; `nil`: nobody holds it, or its key has no end.
    public var timeLeft: Duration?
    /// How it is held; `nil`: nobody holds it, or the sidecar is too old to tell.
    public var mode: SidecarLockMode?
    /// How many hold it.
    public var holders: Int64
    /// Who holds it: of very many those whose leases end first. A place that is just being offered is nobody's.
    public var leases: [Holder]
    /// Callers of this sidecar that wait for it, and other sidecars that do.
    public var waiters: Int64
    /// The sidecars that callers wait in, in the order of their turns: of very many the first 100.
    public var queue: [WaitingSidecar]

    /// Whether anybody holds it.
    public var isHeld: Bool { label != nil }
    /// It is held by something that set no time limit.
    public var isWithoutEnd: Bool { isHeld && timeLeft == nil }

    /// One of those who hold it.
    public struct Holder: Hashable, Sendable {
        /// `foreign` if it is no Interlock.
        public var label: String
        /// `nil`: it has none, as other programs' holds have.
        public var fence: Int64?
        /// `nil`: it has no end.
        public var timeLeft: Duration?
    }

    /// A sidecar in which callers wait for it.
    public struct WaitingSidecar: Hashable, Sendable {
        /// Its ID in the fleet.
        public var id: String
        /// How many callers wait in it, as it told last; `nil`: it has not told. Sidecars of 0.1.0 never do.
        public var waiters: Int64?
    }
}

/// One of the last grants through a sidecar.
public struct SidecarGrant: Hashable, Sendable {
    /// The lock's name.
    public var name: String
    /// The holder's label.
    public var label: String
    /// How it was held.
    public var mode: SidecarLockMode
    /// Of this grant.
    public var fence: Int64
    /// In milliseconds of the Unix epoch, by the clock of the sidecar's host.
    public var grantedMilliseconds: Int64
    /// How long its holder had waited for it.
    public var waited: Duration
    /// In milliseconds of the Unix epoch, by the clock of the sidecar's host; `nil`: the lease is in force.
    public var endedMilliseconds: Int64?
    /// How it ended: `released`, `lost` or `lapsed`; `nil`: the lease is in force.
    public var end: String?

    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let name = fields.text("name"), let label = fields.text("label"),
            let mode = SidecarLockMode(fields), let fence = fields.integer("fence"), let granted = fields.integer("granted_ms"),
            let waited = fields.integer("waited_ms")
        else { return nil }
        self.name = name
        self.label = label
        self.mode = mode
        self.fence = fence
        grantedMilliseconds = granted
        self.waited = .milliseconds(waited)
        endedMilliseconds = fields.integer("ended_ms")
        end = fields.text("end")
    }
}

extension SidecarLockMode {
    /// `nil`: the reply says none that is known.
    fileprivate init?(_ fields: ReplyFields) {
        switch fields.text("mode") {
        case "exclusive": self = .exclusive
        case "shared": self = .shared
        case "permits": self = .permits(Int(fields.integer("permits") ?? 0))
        default: return nil
        }
    }
}

/// The commands `LOCK.*`.
package enum LockCalls {
    /// `LOCK.ACQUIRE name ttl-ms [WAIT ms] [OWNER token] [LABEL text] [LINKED] [SHARED|PERMITS n]`: the lease; `nil`: held by
    /// another.
    package struct Acquire: SidecarCall {
        package var name: String
        package var ttl: Duration
        package var wait: Duration
        package var mode: SidecarLockMode
        package var owner: String?
        package var label: String?
        /// The sidecar extends the lease for as long as the connection lives.
        package var isLinked: Bool

        package init(
            name: String, ttl: Duration, wait: Duration = .zero, mode: SidecarLockMode = .exclusive, owner: String? = nil,
            label: String? = nil, isLinked: Bool = false
        ) {
            self.name = name
            self.ttl = ttl
            self.wait = wait
            self.mode = mode
            self.owner = owner
            self.label = label
            self.isLinked = isLinked
        }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.ACQUIRE")
            encoder.append(name)
            encoder.append(ttl.wholeMilliseconds)
            if wait > .zero { encoder.append("WAIT", wait) }
            if let owner { encoder.append("OWNER", owner) }
            if let label { encoder.append("LABEL", label) }
            if isLinked { encoder.append("LINKED") }
            switch mode {
            case .exclusive: break
            case .shared: encoder.append("SHARED")
            case .permits(let places):
                encoder.append("PERMITS")
                encoder.append(places)
            }
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> SidecarLease? {
            if case .null = reply { return nil }
            guard let parts = reply.array, parts.count == 3, let token = parts[0].text, let fence = parts[1].integer,
                let valid = parts[2].integer
            else { throw reply.unexpected(for: "LOCK.ACQUIRE") }
            return SidecarLease(name: name, token: token, fence: fence, validity: .milliseconds(valid))
        }
    }

    /// The same with `ALSO count name …`: all leases or none; `nil`: another has one of them.
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

        package func decode(_ reply: RedisReply) throws(RedisError) -> [SidecarLease]? {
            if case .null = reply { return nil }
            guard let elements = reply.array, elements.count == others.count + 1 else {
                throw reply.unexpected(for: "LOCK.ACQUIRE")
            }
            var leases: [SidecarLease] = []
            for element in elements {
                guard let parts = element.array, parts.count == 4, let name = parts[0].text, let token = parts[1].text,
                    let fence = parts[2].integer, let valid = parts[3].integer
                else { throw element.unexpected(for: "LOCK.ACQUIRE") }
                leases.append(SidecarLease(name: name, token: token, fence: fence, validity: .milliseconds(valid)))
            }
            return leases
        }
    }

    /// `LOCK.RENEW name token ttl-ms [FENCE n]`: for how long it is valid; `nil`: lost.
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
            guard case .integer(let valid) = reply else { throw reply.unexpected(for: "LOCK.RENEW") }
            return .milliseconds(valid)
        }
    }

    /// `LOCK.RELEASE name token [FENCE n]`: whether that token held it, under that fence.
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
            guard case .integer(let count) = reply else { throw reply.unexpected(for: "LOCK.RELEASE") }
            return count == 1
        }
    }

    /// `LOCK.BREAK name [FENCE n]`: whether somebody held it, under that fence.
    struct Break: SidecarCall {
        var name: String
        var fence: Int64?

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.BREAK")
            encoder.append(name)
            encoder.append(fence: fence)
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
            guard case .integer(let count) = reply else { throw reply.unexpected(for: "LOCK.BREAK") }
            return count == 1
        }
    }

    /// `LOCK.INFO name`; `nil`: nobody holds it or waits for it.
    struct Inspect: SidecarCall {
        var name: String

        /// What `ttl_ms` is of a key without end.
        private static let withoutEnd: Int64 = -1

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.INFO")
            encoder.append(name)
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> SidecarLock? {
            if case .null = reply { return nil }
            guard let fields = ReplyFields(reply), let ttl = fields.integer("ttl_ms") else {
                throw reply.unexpected(for: "LOCK.INFO")
            }
            let label = fields.text("label")
            return SidecarLock(
                name: name, label: label, fence: fields.integer("fence"),
                timeLeft: label == nil ? nil : Self.time(ttl), mode: SidecarLockMode(fields),
                holders: fields.integer("holders") ?? 0,
                leases: fields.array("leases").compactMap(Self.holder), waiters: fields.integer("waiters") ?? 0,
                queue: fields.array("queue").compactMap(Self.waitingSidecar))
        }

        private static func time(_ milliseconds: Int64) -> Duration? {
            milliseconds == withoutEnd ? nil : .milliseconds(milliseconds)
        }

        private static func waitingSidecar(_ reply: RedisReply) -> SidecarLock.WaitingSidecar? {
            guard let fields = ReplyFields(reply), let id = fields.text("sidecar") else { return nil }
            return SidecarLock.WaitingSidecar(id: id, waiters: fields.integer("waiters"))
        }

        private static func holder(_ reply: RedisReply) -> SidecarLock.Holder? {
            guard let fields = ReplyFields(reply), let label = fields.text("label"), let ttl = fields.integer("ttl_ms") else {
                return nil
            }
            return SidecarLock.Holder(label: label, fence: fields.integer("fence"), timeLeft: time(ttl))
        }
    }

    /// `LOCK.GRANTS [name]`: the newest first.
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

    /// `LOCK.LIST cursor MATCH glob`: one step through the names of the locks that are held.
    struct List: SidecarCall {
        /// Where the next step begins, and names, of which an earlier step may have had some.
        struct Page: Sendable {
            var cursor: String
            var names: [String]
        }

        var cursor: String
        var glob: String

        /// Where a listing begins, and what ends it.
        static let start = "0"

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LOCK.LIST")
            encoder.append(cursor)
            encoder.append("MATCH", glob)
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> Page {
            guard let parts = reply.array, parts.count == 2, let next = parts[0].text, let names = parts[1].array else {
                throw reply.unexpected(for: "LOCK.LIST")
            }
            return Page(cursor: next, names: names.compactMap(\.text))
        }
    }
}

extension CommandEncoder {
    /// An option with its value.
    mutating func append(_ option: String, _ value: String) {
        append(option)
        append(value)
    }

    /// The only grant that a call is about; `nil`: whichever there is.
    fileprivate mutating func append(fence: Int64?) {
        guard let fence else { return }
        append("FENCE")
        append(fence)
    }

    /// An option with a time in milliseconds.
    mutating func append(_ option: String, _ time: Duration) {
        append(option)
        append(time.wholeMilliseconds)
    }
}

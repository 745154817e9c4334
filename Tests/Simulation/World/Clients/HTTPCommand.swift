import NIOCore

/// A command of the RESP API, converted to a request to the HTTP API.
struct HTTPCommand {
    /// The kind of request, which determines how its response is parsed.
    enum Kind {
        case acquire(lock: String)
        /// Several locks, acquired together.
        case acquireAll(locks: [String])
        case renew, release, grants, take, permit, report
        case ping(word: String)
    }

    let name: String
    let kind: Kind
    let bytes: ByteBuffer

    /// Converts a command.
    /// - Parameter words: a command that the HTTP API handles without a task. It must not have options that only RESP
    ///   supports.
    init(_ words: [String]) {
        name = words[0]
        switch words[0] {
        case "LOCK.ACQUIRE":
            let body = Body([("ttl_ms", words[2])], options: words.dropFirst(3))
            kind = body.otherLocks.isEmpty ? .acquire(lock: words[1]) : .acquireAll(locks: [words[1]] + body.otherLocks)
            bytes = Self.post("/v1/locks/\(words[1])", body)
        case "LOCK.RENEW":
            let fields = [("token", Body.quoted(words[2])), ("ttl_ms", words[3])]
            kind = .renew
            bytes = Self.post("/v1/locks/\(words[1])/renew", Body(fields, options: words.dropFirst(4)))
        case "LOCK.RELEASE":
            kind = .release
            var fields = [("Lease-Token", words[2])]
            if words.count == 5 { fields.append(("Lease-Fence", words[4])) }
            bytes = Self.request("DELETE", "/v1/locks/\(words[1])", fields)
        case "LOCK.GRANTS":
            kind = .grants
            bytes = Self.request("GET", "/v1/grants?lock=\(words[1])")
        case "LIMIT.TAKE":
            kind = .take
            bytes = Self.post("/v1/limits/\(words[1])/take", Body(options: words.dropFirst(2)))
        case "PERMIT.ACQUIRE":
            kind = .permit
            bytes = Self.post("/v1/services/\(words[1])/permits", Body(options: words.dropFirst(2)))
        case "PERMIT.REPORT":
            kind = .report
            let fields = [("outcome", Body.quoted(words[3].lowercased()))]
            bytes = Self.post("/v1/services/\(words[1])/permits/\(words[2])", Body(fields, options: words.dropFirst(4)))
        case "PING":
            kind = .ping(word: words[1])
            bytes = Self.request("GET", "/healthz")
        default: preconditionFailure("\(words[0]) is not sent over HTTP")
        }
    }

    private static func post(_ path: String, _ body: Body) -> ByteBuffer {
        let json = body.json
        // A request without options needs no body.
        guard json != "{}" else { return request("POST", path, [("Content-Length", "0")]) }
        let fields = [("Content-Type", "application/json"), ("Content-Length", "\(json.utf8.count)")]
        return request("POST", path, fields, body: json)
    }

    private static func request(
        _ method: String, _ path: String, _ fields: [(name: String, value: String)] = [], body: String = ""
    ) -> ByteBuffer {
        let lines = ["\(method) \(path) HTTP/1.1", "Host: localhost:7380"] + fields.map { "\($0.name): \($0.value)" }
        return ByteBuffer(string: lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
    }
}

extension HTTPCommand {
    /// The JSON object in a request. Names in a simulated world need no escapes.
    struct Body {
        /// The fields, with values in JSON.
        private var fields: [(name: String, value: String)]
        /// The locks of the option `ALSO`.
        private(set) var otherLocks: [String] = []

        init(_ fields: [(name: String, value: String)] = [], options: ArraySlice<String>) {
            self.fields = fields
            var options = options
            while let option = options.popFirst() { add(option, &options) }
        }

        var json: String { "{" + fields.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ",") + "}" }

        static func quoted(_ text: String) -> String { "\"\(text)\"" }

        private mutating func add(_ option: String, _ options: inout ArraySlice<String>) {
            switch option {
            case "SHARED": fields.append(("mode", "\"shared\""))
            case "ALSO":
                otherLocks = Array(options.dropFirst())
                options = []
                fields.append(("also", "[" + otherLocks.map(Self.quoted).joined(separator: ",") + "]"))
            case "OWNER", "SUBJECT": fields.append((option.lowercased(), Self.quoted(options.removeFirst())))
            default: fields.append((Self.numberName(option), options.removeFirst()))
            }
        }

        /// Returns the JSON name of an option with a number.
        private static func numberName(_ option: String) -> String {
            switch option {
            case "WAIT": "wait_ms"
            case "LATENCY": "latency_ms"
            case "RETRYAFTER": "retry_after_ms"
            case "COST", "FENCE", "PERMITS", "STATUS": option.lowercased()
            default: preconditionFailure("the option \(option) is not sent over HTTP")
            }
        }
    }
}

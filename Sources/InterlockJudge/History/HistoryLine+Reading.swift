internal import InterlockCore

/// An error in a line of a history file.
struct HistoryLineError: Error {
    /// A description of the error and of the expected content.
    var reason: String

    init(_ reason: String) {
        self.reason = reason
    }
}

extension HistoryLine {
    /// Returns the event that the line describes.
    func event() throws(HistoryLineError) -> HistoryEvent {
        HistoryEvent(at: Instant(nanoseconds: atNanoseconds), try eventKind())
    }

    private func eventKind() throws(HistoryLineError) -> HistoryEvent.Kind {
        switch kind {
        case "wrote":
            return .wrote(
                client: try field("client", client), lock: try field("lock", lock), lease: try field("lease", lease),
                fence: try field("fence", fence), isAccepted: try field("ok", ok))
        case "linked":
            let word = try field("reason", reason)
            guard let change = LinkChange(rawValue: word) else {
                throw HistoryLineError("\"\(word)\" is not a change of a link; expected began, left or lost")
            }
            return .linked(
                client: try field("client", client), lock: try field("lock", lock), lease: try field("lease", lease),
                ttlMilliseconds: try field("ttl", ttlMilliseconds), change)
        case "forced":
            return .forced(
                service: try field("service", service), state: state.flatMap(BreakerSnapshot.Forced.init),
                until: untilNanoseconds.map { Instant(nanoseconds: $0) })
        case "breaker":
            return .breakerSeen(
                sidecar: try field("sidecar", sidecar), service: try field("service", service),
                state: try breakerState(), generation: try field("generation", generation),
                until: untilNanoseconds.map { Instant(nanoseconds: $0) })
        case "fault":
            let word = try field("reason", reason)
            guard let kind = FaultKind(rawValue: word) else {
                throw HistoryLineError(
                    "\"\(word)\" is not a fault; expected one of \(Self.list(FaultKind.allCases.map(\.rawValue)))")
            }
            return .faultBegan(fault: try field("fault", fault), kind, sidecar: sidecar)
        case "mended":
            return .faultEnded(fault: try field("fault", fault))
        default:
            if let kind = OperationKind(rawValue: kind) {
                return .invoked(
                    client: try field("client", client), sidecar: try field("sidecar", sidecar), try operation(kind))
            }
            return .ended(client: try field("client", client), try ending())
        }
    }

    private func operation(_ kind: OperationKind) throws(HistoryLineError) -> Operation {
        switch kind {
        case .acquire:
            .acquire(
                lock: try field("lock", lock), mode: try leaseMode(),
                ttlMilliseconds: try field("ttl", ttlMilliseconds),
                waitMilliseconds: try field("wait", waitMilliseconds),
                isJoint: ok ?? false)
        case .renew:
            .renew(
                lock: try field("lock", lock), lease: try field("lease", lease),
                ttlMilliseconds: try field("ttl", ttlMilliseconds))
        case .release: .release(lock: try field("lock", lock), lease: try field("lease", lease))
        case .take:
            .take(
                service: try field("service", service), cost: try field("cost", cost), subject: subject,
                waitMilliseconds: try field("wait", waitMilliseconds))
        case .permit:
            .permit(
                service: try field("service", service), subject: subject,
                waitMilliseconds: try field("wait", waitMilliseconds))
        case .report:
            .report(service: try field("service", service), permit: try field("permit", permit), isOK: try field("ok", ok))
        case .proxied: .proxied(service: try field("service", service))
        }
    }

    private func ending() throws(HistoryLineError) -> OperationEnding {
        switch kind {
        case "granted":
            .done(
                .granted(
                    lease: try field("lease", lease), fence: try field("fence", fence),
                    validForMilliseconds: try field("valid", validForMilliseconds)))
        case "renewed": .done(.renewed(validForMilliseconds: try field("valid", validForMilliseconds)))
        case "released": .done(.released)
        case "taken":
            .done(
                .taken(
                    limit: try field("limit", limit), remaining: try field("remaining", remaining),
                    resetAfterMilliseconds: try field("reset", resetAfterMilliseconds)))
        case "permitted": .done(.permitted(try field("permit", permit), state: try breakerState()))
        case "reported": .done(.reported(state: try breakerState()))
        case "passed": .done(.passed(status: try field("status", status)))
        case "refused": .refused(try refusal())
        case "failed": .failed(code: try field("reason", reason))
        case "unknown": .unknown(reason: try field("reason", reason))
        default:
            throw HistoryLineError("\"\(kind)\" is not an event; expected acquire, granted, wrote or another one")
        }
    }

    private func refusal() throws(HistoryLineError) -> Refusal {
        switch try field("reason", reason) {
        case "held": return .held
        case "lost": return .lost
        case "limited": return .limited(retryAfterMilliseconds: try field("retry", retryAfterMilliseconds))
        case "open": return .open(retryAfterMilliseconds: try field("retry", retryAfterMilliseconds))
        case "busy": return .busy(retryAfterMilliseconds: try field("retry", retryAfterMilliseconds))
        case let word:
            guard word.hasPrefix(Refusal.otherPrefix) else {
                throw HistoryLineError(
                    "\"\(word)\" is not a refusal; expected held, lost, limited, open, busy or \"\(Refusal.otherPrefix)\" and a word"
                )
            }
            return .other(String(word.dropFirst(Refusal.otherPrefix.count)))
        }
    }

    private func leaseMode() throws(HistoryLineError) -> LeaseMode {
        switch try field("mode", mode) {
        case "exclusive": return .exclusive
        case "shared": return .shared
        case let word:
            guard word.hasPrefix(LeaseMode.permitsPrefix), let count = Int(word.dropFirst(LeaseMode.permitsPrefix.count)) else {
                throw HistoryLineError(
                    "\"\(word)\" is not a mode; expected exclusive, shared or \(LeaseMode.permitsPrefix) and a number")
            }
            return .permits(count)
        }
    }

    private func breakerState() throws(HistoryLineError) -> BreakerSnapshot.State {
        let word = try field("state", state)
        guard let state = BreakerSnapshot.State(rawValue: word) else {
            throw HistoryLineError(
                "\"\(word)\" is not a state; expected one of \(Self.list(BreakerSnapshot.State.allCases.map(\.rawValue)))")
        }
        return state
    }

    private func field<Value>(_ name: String, _ value: Value?) throws(HistoryLineError) -> Value {
        guard let value else { throw HistoryLineError("the field \"\(name)\" of \"\(kind)\" is missing") }
        return value
    }

    private static func list(_ words: [String]) -> String { words.joined(separator: ", ") }
}

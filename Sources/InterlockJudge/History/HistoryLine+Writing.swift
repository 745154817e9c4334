internal import InterlockCore

extension HistoryLine {
    init(_ event: HistoryEvent) {
        switch event.kind {
        case .invoked(let client, let sidecar, let operation):
            self.init(at: event.at, kind: operation.kind.rawValue)
            self.client = client
            self.sidecar = sidecar
            describe(operation)
        case .ended(let client, let ending):
            self.init(at: event.at, kind: ending.word)
            self.client = client
            describe(ending)
        case .wrote(let client, let lock, let lease, let fence, let isAccepted):
            self.init(at: event.at, kind: "wrote")
            self.client = client
            (self.lock, self.lease, self.fence, ok) = (lock, lease, fence, isAccepted)
        case .linked(let client, let lock, let lease, let ttlMilliseconds, let change):
            self.init(at: event.at, kind: "linked")
            (self.client, self.lock, self.lease, reason) = (client, lock, lease, change.rawValue)
            self.ttlMilliseconds = ttlMilliseconds
        case .forced(let service, let state, let until):
            self.init(at: event.at, kind: "forced")
            (self.service, self.state, untilNanoseconds) = (service, state?.rawValue, until?.nanoseconds)
        case .breakerSeen(let sidecar, let service, let state, let generation, let until):
            self.init(at: event.at, kind: "breaker")
            self.sidecar = sidecar
            (self.service, self.state, self.generation) = (service, state.rawValue, generation)
            untilNanoseconds = until?.nanoseconds
        case .faultBegan(let fault, let kind, let sidecar):
            self.init(at: event.at, kind: "fault")
            (self.fault, reason, self.sidecar) = (fault, kind.rawValue, sidecar)
        case .faultEnded(let fault):
            self.init(at: event.at, kind: "mended")
            self.fault = fault
        }
    }

    private mutating func describe(_ operation: Operation) {
        switch operation {
        case .acquire(let lock, let mode, let ttlMilliseconds, let waitMilliseconds, let isJoint):
            if isJoint { ok = true }
            (self.lock, self.mode) = (lock, mode.word)
            (self.ttlMilliseconds, self.waitMilliseconds) = (ttlMilliseconds, waitMilliseconds)
        case .renew(let lock, let lease, let ttlMilliseconds):
            (self.lock, self.lease, self.ttlMilliseconds) = (lock, lease, ttlMilliseconds)
        case .release(let lock, let lease):
            (self.lock, self.lease) = (lock, lease)
        case .take(let service, let cost, let subject, let waitMilliseconds):
            (self.service, self.cost, self.subject) = (service, cost, subject)
            self.waitMilliseconds = waitMilliseconds
        case .permit(let service, let subject, let waitMilliseconds):
            (self.service, self.subject, self.waitMilliseconds) = (service, subject, waitMilliseconds)
        case .report(let service, let permit, let isOK):
            (self.service, self.permit, ok) = (service, permit, isOK)
        case .proxied(let service):
            self.service = service
        }
    }

    private mutating func describe(_ ending: OperationEnding) {
        switch ending {
        case .done(.granted(let lease, let fence, let validForMilliseconds)):
            (self.lease, self.fence, self.validForMilliseconds) = (lease, fence, validForMilliseconds)
        case .done(.renewed(let validForMilliseconds)): self.validForMilliseconds = validForMilliseconds
        case .done(.released): break
        case .done(.taken(let limit, let remaining, let resetAfterMilliseconds)):
            (self.limit, self.remaining) = (limit, remaining)
            self.resetAfterMilliseconds = resetAfterMilliseconds
        case .done(.permitted(let permit, let state)): (self.permit, self.state) = (permit, state.rawValue)
        case .done(.reported(let state)): self.state = state.rawValue
        case .done(.passed(let status)): self.status = status
        case .refused(let refusal):
            reason = refusal.name
            switch refusal {
            case .held, .lost: break
            case .limited(let milliseconds), .open(let milliseconds), .busy(let milliseconds):
                retryAfterMilliseconds = milliseconds
            case .other(let word): reason = Refusal.otherPrefix + word
            }
        case .failed(let code): reason = code
        case .unknown(let reason): self.reason = reason
        }
    }
}

extension Refusal {
    /// The prefix of `Refusal.other` in history files.
    static let otherPrefix = "other: "
}

extension LeaseMode {
    static let permitsPrefix = "permits-"

    /// The mode's name in history files.
    var word: String {
        switch self {
        case .exclusive: "exclusive"
        case .shared: "shared"
        case .permits(let count): "\(Self.permitsPrefix)\(count)"
        }
    }
}

extension OperationEnding {
    /// The ending's name in history files.
    fileprivate var word: String {
        switch self {
        case .done(.granted): "granted"
        case .done(.renewed): "renewed"
        case .done(.released): "released"
        case .done(.taken): "taken"
        case .done(.permitted): "permitted"
        case .done(.reported): "reported"
        case .done(.passed): "passed"
        case .refused: "refused"
        case .failed: "failed"
        case .unknown: "unknown"
        }
    }
}

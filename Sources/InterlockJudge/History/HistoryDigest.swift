internal import InterlockCore

/// A digest of a history. Equal histories have equal digests, and different ones almost never do.
///
/// Algorithm: FNV-1a over 64-bit words (Fowler, Noll, Vo; draft-eastlake-fnv).
package struct HistoryDigest: Sendable {
    package private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    private mutating func add(_ word: Int64) {
        value = (value ^ UInt64(bitPattern: word)) &* 0x100_0000_01b3
        // FNV is designed for octets. In a wider word, the upper half must also affect the lower bits.
        value ^= value >> 32
    }

    private mutating func add(_ number: Int) { add(Int64(number)) }

    private mutating func add(_ text: String) {
        for byte in text.utf8 { add(Int64(byte)) }
    }

    package init() {}

    package mutating func add(_ event: HistoryEvent) {
        add(event.at.nanoseconds)
        switch event.kind {
        case .invoked(let client, let sidecar, let operation):
            add(1)
            add(client)
            add(sidecar)
            add(operation)
        case .ended(let client, let ending):
            add(2)
            add(client)
            add(ending)
        case .wrote(let client, let lock, let lease, let fence, let isAccepted):
            add(3)
            add(client)
            add(lock)
            add(lease)
            add(fence)
            add(isAccepted ? 1 : 0)
        case .linked(let client, let lock, let lease, let ttlMilliseconds, let change):
            add(7)
            add(client)
            add(lock)
            add(lease)
            add(ttlMilliseconds)
            add(change.rawValue)
        case .forced(let service, let state, let until):
            add(8)
            add(service)
            add(state?.rawValue ?? "")
            add(until?.nanoseconds ?? -1)
        case .breakerSeen(let sidecar, let service, let state, let generation, let until):
            add(4)
            add(sidecar)
            add(service)
            add(state.rawValue)
            add(generation)
            add(until?.nanoseconds ?? -1)
        case .faultBegan(let fault, let kind, let sidecar):
            add(5)
            add(fault)
            add(kind.rawValue)
            add(sidecar ?? -1)
        case .faultEnded(let fault):
            add(6)
            add(fault)
        }
    }

    private mutating func add(_ operation: Operation) {
        switch operation {
        case .acquire(let lock, let mode, let ttlMilliseconds, let waitMilliseconds, let isJoint):
            add(isJoint ? 1 : 0)
            add(11)
            add(lock)
            add(mode)
            add(ttlMilliseconds)
            add(waitMilliseconds)
        case .renew(let lock, let lease, let ttlMilliseconds):
            add(12)
            add(lock)
            add(lease)
            add(ttlMilliseconds)
        case .release(let lock, let lease):
            add(13)
            add(lock)
            add(lease)
        case .take(let service, let cost, let subject, let waitMilliseconds):
            add(14)
            add(service)
            add(cost)
            add(subject ?? -1)
            add(waitMilliseconds)
        case .permit(let service, let subject, let waitMilliseconds):
            add(15)
            add(service)
            add(subject ?? -1)
            add(waitMilliseconds)
        case .report(let service, let permit, let isOK):
            add(16)
            add(service)
            add(permit)
            add(isOK ? 1 : 0)
        case .proxied(let service):
            add(17)
            add(service)
        }
    }

    private mutating func add(_ mode: LeaseMode) {
        switch mode {
        case .exclusive: add(-1)
        case .shared: add(0)
        case .permits(let slots): add(slots)
        }
    }

    private mutating func add(_ ending: OperationEnding) {
        switch ending {
        case .done(let success): add(success)
        case .refused(let refusal): add(refusal)
        case .failed(let code):
            add(21)
            add(code)
        case .unknown(let reason):
            add(22)
            add(reason)
        }
    }

    private mutating func add(_ success: OperationSuccess) {
        switch success {
        case .granted(let lease, let fence, let validForMilliseconds):
            add(31)
            add(lease)
            add(fence)
            add(validForMilliseconds)
        case .renewed(let validForMilliseconds):
            add(32)
            add(validForMilliseconds)
        case .released:
            add(33)
        case .taken(let limit, let remaining, let resetAfterMilliseconds):
            add(34)
            add(limit)
            add(remaining)
            add(resetAfterMilliseconds)
        case .permitted(let permit, let state):
            add(35)
            add(permit)
            add(state.rawValue)
        case .reported(let state):
            add(36)
            add(state.rawValue)
        case .passed(let status):
            add(37)
            add(status)
        }
    }

    private mutating func add(_ refusal: Refusal) {
        switch refusal {
        case .held, .lost: add(41)
        case .limited(let milliseconds), .open(let milliseconds), .busy(let milliseconds): add(milliseconds)
        case .other: add(42)
        }
        add(refusal.name)
    }
}

/// A call that requests a permit, with its stage, its trial permit and its slot.
package final class GateCall {
    /// The step that the call has reached.
    package enum Stage: Equatable, Sendable {
        /// The call is new and has not waited for anything.
        case ready
        /// The call waits for Redis to grant or refuse a trial permit.
        case trial
        /// The call waits for the decision of the limits.
        case limits
        /// The call waits for a slot.
        case slot
        /// The call waits through a pause of the service.
        case pause
        /// The call was answered or cancelled. Anything granted to it afterwards is returned.
        case over
    }

    /// The kind of trial that the call makes.
    enum Trial: Equatable, Sendable {
        /// The call is not a trial.
        case none
        /// A trial with one of the fleet's trial permits, which lapses at `until`.
        case fleet(PermitID, until: Instant)
        /// A local trial, because this sidecar opened the breaker for itself only, or because Redis is unreachable.
        case local
    }

    /// The position in the order of arrival.
    package let number: UInt64
    package let cost: Int64
    package let subject: String?
    /// The deadline of the caller's wait; `nil` if it does not wait.
    package let deadline: Instant?
    /// The key of the caller in the executor's table.
    package let callerKey: Int
    /// The key of the call's request to the limits. The executor can cancel the request with it.
    package var limitsKey: Int?

    package internal(set) var stage = Stage.ready
    /// The breaker's generation that admitted the call. The outcome counts under this generation only.
    var generation: Int64 = 0
    var trial = Trial.none
    /// Whether the limits have granted the call.
    var isGrantedByLimits = false
    /// Whether the call holds one of the service's slots.
    var hasSlot = false
    /// Whether the call has waited for a slot or through a pause.
    var hasWaited = false

    package init(number: UInt64, cost: Int64, subject: String?, deadline: Instant?, callerKey: Int) {
        self.number = number
        self.cost = cost
        self.subject = subject
        self.deadline = deadline
        self.callerKey = callerKey
    }

    package var isOver: Bool { stage == .over }
    var isTrial: Bool { trial != .none }
    /// The fleet's trial permit that the call holds; `nil` if it holds no such permit.
    package var trialPermit: PermitID? { if case .fleet(let id, _) = trial { id } else { nil } }

    /// Marks the call as answered.
    package func end() { stage = .over }
}

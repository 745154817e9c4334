/// How a grant ended.
package enum GrantEnd: String, Sendable {
    /// The holder released the lock, or the caller had left before the grant arrived.
    case released
    /// Redis reported another holder or no holder: the lock was broken, taken or deleted.
    case lost
    /// The lease expired without a renewal through this sidecar.
    case lapsed
}

/// How a grant ended.
package enum GrantEnd: String, Sendable {
    /// Its holder released it, or was not there any more to get it.
    case released
    /// Redis said that another has it, or nobody: it was broken, taken or deleted.
    case lost
    /// Its time was over, and nobody extended it through this sidecar.
    case lapsed
}

internal import InterlockCore

/// One grant of a lock through this sidecar.
package struct GrantRecord: Hashable, Sendable {
    package var name: String
    package var label: String
    package var mode: LockMode
    package var fence: Int64
    /// By this host's clock, since 1970.
    package var grantedMilliseconds: Int64
    package var waitedMilliseconds: Int64
    /// Until when its holder may rely on it, by this host's clock, since 1970.
    package var promisedMilliseconds: Int64
    /// By this host's clock, since 1970; `nil`: the lease is in force.
    package var endedMilliseconds: Int64?
    /// `nil`: the lease is in force.
    package var end: GrantEnd?
}

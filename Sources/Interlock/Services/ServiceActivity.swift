/// The current calls to a service through this sidecar.
package struct ServiceActivity: Hashable, Sendable {
    /// The number of calls that have a permit and no reported outcome.
    package var inFlight: Int
    /// The number of calls that wait for a limit, for a slot or for the end of a pause.
    package var waiting: Int
    /// The maximum number of concurrent calls; `nil` if there is none.
    package var slots: Int?
}

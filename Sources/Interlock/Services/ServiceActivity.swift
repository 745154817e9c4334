/// The calls to a service that go through this sidecar.
package struct ServiceActivity: Hashable, Sendable {
    /// Calls that have a permit whose outcome was not reported.
    package var underWay: Int
    /// Calls that wait for a turn, for a place, or through a pause.
    package var waiting: Int
    /// How many may be under way at a time; `nil`: there is no bound.
    package var places: Int?
}

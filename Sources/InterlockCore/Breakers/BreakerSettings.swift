/// When a service's breaker trips by reported outcomes, and how it comes back.
public struct BreakerSettings: Hashable, Sendable {
    /// The share of failed calls in the window, 0…1, from which the breaker trips.
    public var failureRate: Double
    /// From which duration a call counts as slow; `nil`: calls are not judged by their duration.
    public var slowCall: Duration?
    /// The share of slow calls in the window, 0…1, from which the breaker trips.
    public var slowRate: Double
    /// The time over which outcomes are judged, shared by the fleet.
    public var window: Duration
    /// The rates are not judged before the window holds so many calls.
    public var minimumCalls: Int
    /// Open time: starts at the lower bound, doubles with each failed trial, ends at the upper one.
    public var openFor: ClosedRange<Duration>
    /// How many trial calls the whole fleet may have under way in half-open; so many successes close the breaker.
    public var halfOpenPermits: Int

    public init(
        failureRate: Double = 0.5,
        slowCall: Duration? = nil,
        slowRate: Double = 0.8,
        window: Duration = .seconds(10),
        minimumCalls: Int = 20,
        openFor: ClosedRange<Duration> = .seconds(5) ... .seconds(60),
        halfOpenPermits: Int = 3
    ) {
        self.failureRate = failureRate
        self.slowCall = slowCall
        self.slowRate = slowRate
        self.window = window
        self.minimumCalls = minimumCalls
        self.openFor = openFor
        self.halfOpenPermits = halfOpenPermits
    }
}

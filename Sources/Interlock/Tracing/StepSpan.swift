internal import InterlockCore

/// A step of a call that is traced, whoever keeps its spans: a sidecar, which sends them itself, or the tracer of a program that embeds
/// a coordinator.
package protocol StepSpan: AnyObject {
    /// In nanoseconds since 1970; so everywhere here.
    var startedAt: Int64 { get }
    var now: Int64 { get }
    /// A part of this step, and when it began.
    func part(_ name: String, from start: Int64) -> Self
    func set(_ name: String, _ value: String)
    func set(_ name: String, _ value: Int64)
    /// It did not come to what it was made for.
    func fail(_ reason: String)
    /// - Parameter end: `nil`: now.
    func end(at end: Int64?)
}

extension StepSpan {
    /// Nobody wants to know any more what it comes to.
    package func givenUp() {
        fail(StepTrace.givenUpReason)
        end(at: nil)
    }
}

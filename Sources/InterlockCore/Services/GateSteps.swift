/// The steps that follow from one input.
package struct GateSteps {
    /// The steps to take first: refunds, timers, and the steps of other calls.
    package var before: [GateStep] = []
    /// The next step of the call itself; `nil` while the call waits, or if the input concerned no single call.
    package var next: GateStep?
}

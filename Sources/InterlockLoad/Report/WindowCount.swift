/// The grants of a limit in one of its windows.
package struct WindowCount: Codable, Hashable, Sendable {
    package var service: String
    /// The start of the window in seconds since the start of the run.
    package var beganSeconds: Double
    package var granted: Int64
    package var limit: Int64

    package init(service: String, beganSeconds: Double, granted: Int64, limit: Int64) {
        self.service = service
        self.beganSeconds = beganSeconds
        self.granted = granted
        self.limit = limit
    }
}

/// What a process used.
package struct ProcessReport: Codable, Hashable, Sendable {
    /// `sidecar 1`, `redis`, `harness`.
    package var name: String
    /// Of one core, on average.
    package var coreShare: Double
    /// The most that was seen, in bytes.
    package var residentPeak: Int
    /// At the end, in bytes.
    package var residentEnd: Int

    package init(name: String, coreShare: Double, residentPeak: Int, residentEnd: Int) {
        self.name = name
        self.coreShare = coreShare
        self.residentPeak = residentPeak
        self.residentEnd = residentEnd
    }
}

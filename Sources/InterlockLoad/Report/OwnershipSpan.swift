/// A lease from its grant until its release or expiry, with times in seconds since the start of the run.
package struct OwnershipSpan: Codable, Hashable, Sendable {
    package var lock: Int
    package var client: Int
    package var sidecar: Int
    package var fence: Int64
    package var beganSeconds: Double
    package var endedSeconds: Double

    package init(lock: Int, client: Int, sidecar: Int, fence: Int64, beganSeconds: Double, endedSeconds: Double) {
        self.lock = lock
        self.client = client
        self.sidecar = sidecar
        self.fence = fence
        self.beganSeconds = beganSeconds
        self.endedSeconds = endedSeconds
    }
}

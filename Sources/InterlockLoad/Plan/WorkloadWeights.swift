/// The weights of the operations of a mixed run. Their sum is arbitrary.
package struct WorkloadWeights: Hashable, Sendable {
    package var lock: Double
    package var limit: Double
    package var permit: Double
    package var proxy: Double

    package init(lock: Double = 40, limit: Double = 40, permit: Double = 15, proxy: Double = 5) {
        self.lock = lock
        self.limit = limit
        self.permit = permit
        self.proxy = proxy
    }
}

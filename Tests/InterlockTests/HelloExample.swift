import Interlock

/// docs/swift/README.md shows the body of this function, which needs no other import.
func hello(redis: String) async throws {
    // snippet: hello
    try await withCoordinator(redis: redis) { coordinator in
        try await coordinator.locks.withLock("nightly-report") { lease in
            print("held with fence \(lease.fence)")
        }
    }
    // end
}

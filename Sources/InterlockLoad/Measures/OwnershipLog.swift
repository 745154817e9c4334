internal import InterlockCore

/// Who held the first few locks when: as much of it as a picture can show.
struct OwnershipLog: Sendable {
    static let mostLocks = 8
    static let mostSpans = 4000

    private let start: Instant
    private(set) var spans: [OwnershipSpan] = []

    init(start: Instant) {
        self.start = start
    }

    /// A lease is over: it was given up, or has lapsed.
    mutating func held(lock: Int, client: Int, sidecar: Int, fence: Int64, from began: Instant, to ended: Instant) {
        guard lock < Self.mostLocks, spans.count < Self.mostSpans else { return }
        spans.append(
            OwnershipSpan(
                lock: lock, client: client, sidecar: sidecar, fence: fence, began: began.seconds(since: start),
                ended: ended.seconds(since: start)))
    }
}

extension Instant {
    func seconds(since start: Instant) -> Double { Double(nanoseconds - start.nanoseconds) / 1e9 }
}

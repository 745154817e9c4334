/// The places for calls to one service that may be under way at a time in this sidecar, and the line of those who wait for
/// one: the bulkhead of Nygard's "Release It!".
///
/// Places are given in the order of arrival, and nobody goes before those who wait. The caller runs `settle` whenever a place
/// may have come free or a deadline has passed, and carries out what it says.
package struct Bulkhead: Sendable {
    /// What a call gets that asks for a place.
    package enum Entry: Equatable, Sendable {
        /// The place is its own until `release`.
        case taken
        /// It stands in line; `settle` tells what becomes of it.
        case waiting
        /// No place is free, and it cannot wait.
        case full
    }

    /// What became of those who waited.
    package struct Settlement: Equatable, Sendable {
        /// The places are theirs now, in this order.
        package var admitted: [UInt64] = []
        /// Their wait is over.
        package var expired: [UInt64] = []

        package init(admitted: [UInt64] = [], expired: [UInt64] = []) {
            self.admitted = admitted
            self.expired = expired
        }
    }

    /// How long a refused caller is told to wait before anything is known of how long calls take.
    package static let shortestRetryMilliseconds: Int64 = 50
    package static let longestRetryMilliseconds: Int64 = 5000

    /// `nil`: as many as ask.
    package private(set) var places: Int?
    /// Also counted while there is no bound, so that one can be set while calls are under way.
    package private(set) var taken = 0
    private var line: WaitingLine
    /// For how long a place is held, in milliseconds: a mean in which each call counts for an eighth.
    private var meanHold = 0.0

    package init(places: Int?, maximumWaiting: Int) {
        self.places = places
        line = WaitingLine(capacity: maximumWaiting)
    }

    package var waitingCount: Int { line.count }

    /// Whether a call that comes now would find no place.
    package var isFull: Bool {
        guard let places else { return false }
        return taken >= places || !line.isEmpty
    }

    /// In how many milliseconds a refused call may expect a place: from how long places are held and how many want one.
    package var retryMilliseconds: Int64 {
        let turns = meanHold * Double(line.count + 1) / Double(max(1, places ?? 1))
        return min(max(Int64(turns.rounded(.up)), Self.shortestRetryMilliseconds), Self.longestRetryMilliseconds)
    }

    /// A call asks for a place.
    /// - Parameters:
    ///   - number: rises with the calls' arrival.
    ///   - subject: whose it is; `nil`: nobody's, which has no bound of its own.
    ///   - isBack: it has waited before, and waits whatever else its subject has.
    ///   - deadline: until when it is willing to wait; `nil`: not at all.
    package mutating func enter(
        _ number: UInt64, of subject: String? = nil, isBack: Bool = false, deadline: Instant?, now: Instant
    ) -> Entry {
        guard isFull else {
            taken += 1
            return .taken
        }
        guard let deadline, deadline > now,
            line.insert(.init(number: number, deadline: deadline, earliest: now, subject: subject, isBack: isBack))
        else {
            return .full
        }
        return .waiting
    }

    /// A place is free again. `settle` gives it away.
    /// - Parameter held: for how long a call was under way in it; `nil`: none was, as far as is known.
    package mutating func release(heldForMilliseconds held: Int64?) {
        taken -= 1
        guard let held else { return }
        meanHold = meanHold == 0 ? Double(held) : meanHold + (Double(held) - meanHold) / 8
    }

    /// A call that waits leaves. `false`: it does not wait here.
    package mutating func leave(_ number: UInt64) -> Bool {
        line.remove(number)
    }

    /// Everyone who waits leaves.
    package mutating func leaveAll() -> [UInt64] {
        line.removeAll { _ in true }.map(\.number)
    }

    /// The configuration changed. Those who wait stay in line; `settle` gives them what there is more.
    package mutating func resize(places: Int?, maximumWaiting: Int) {
        self.places = places
        line.capacity = maximumWaiting
    }

    /// Gives free places to those who wait, and ends the waits that are over. O(n) in waiters when one has expired, else in
    /// those who get a place.
    package mutating func settle(now: Instant) -> Settlement {
        var settlement = Settlement()
        guard !line.isEmpty else { return settlement }
        settlement.expired = line.removeAll { $0.deadline <= now }.map(\.number)
        while let next = line.first, places.map({ taken < $0 }) ?? true {
            line.removeFirst()
            taken += 1
            settlement.admitted.append(next.number)
        }
        return settlement
    }

    /// When `settle` is to be run next because a wait is over; `nil`: nobody waits. O(n).
    package var nextDeadline: Instant? { line.nextDeadline }
}

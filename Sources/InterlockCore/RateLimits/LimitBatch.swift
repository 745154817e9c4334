/// A call that asks for its share of a service's limits.
public struct LimitRequest: Equatable, Sendable {
    /// What one call may cost.
    public static let costs: ClosedRange<Int64> = 1...1_000_000_000_000_000

    /// The caller's own mark; comes back with the answer.
    public var id: Int
    /// For how many equal calls it stands; more than one only without a deadline.
    public var count: Int
    /// How much each call takes, 1 or more.
    public var cost: Int64
    /// Whom it counts for in the per-subject limits; `nil`: they do not bind it.
    public var subject: String?
    /// Until when it is willing to wait for its turn; `nil`: not at all.
    public var deadline: Instant?

    public init(id: Int, count: Int = 1, cost: Int64 = 1, subject: String? = nil, deadline: Instant? = nil) {
        self.id = id
        self.count = count
        self.cost = cost
        self.subject = subject
        self.deadline = deadline
    }
}

/// The requests of one service that travel together: one script judges them in order.
///
/// Its counters are the service-wide limits, then for each subject in turn the per-subject limits. Equal neighbours are
/// one run, so that the script's work grows with their variety and not with their number.
public struct LimitBatch: Sendable {
    /// Requests in a row that ask for the same.
    public struct Run: Equatable, Sendable {
        public var count: Int
        public var cost: Int64
        /// They wait when they are refused: then nobody behind them may take from the counters that they lacked.
        public var waits: Bool
        /// 0: no subject; else the number of its subject in `subjects`, from 1.
        public var group: Int
    }

    /// One counter as the script sees it.
    public struct Counter: Equatable, Sendable {
        public var definition: Int
        public var subject: String?
        public var limit: Int64
        public var windowMilliseconds: Int64
    }

    public let definitions: [LimitDefinition]
    let serviceWide: [Int]
    let perSubject: [Int]
    public private(set) var subjects: [String] = []
    public private(set) var runs: [Run] = []
    public internal(set) var requests: [LimitRequest] = []
    private var groups: [String: Int] = [:]

    init(definitions: [LimitDefinition], serviceWide: [Int], perSubject: [Int]) {
        self.definitions = definitions
        self.serviceWide = serviceWide
        self.perSubject = perSubject
    }

    public var isEmpty: Bool { requests.isEmpty }
    public var serviceWideCount: Int { serviceWide.count }
    public var perSubjectCount: Int { perSubject.count }

    /// The counters, in the order of the script's keys.
    public var counters: [Counter] {
        var counters: [Counter] = []
        counters.reserveCapacity(serviceWide.count + perSubject.count * subjects.count)
        for index in serviceWide { counters.append(counter(index, subject: nil)) }
        for subject in subjects {
            for index in perSubject { counters.append(counter(index, subject: subject)) }
        }
        return counters
    }

    /// The places in `counters` of those that bind the request at `place`.
    public func counterIndices(ofRequestAt place: Int) -> [Int] {
        let group = requests[place].subject.flatMap { groups[$0] } ?? 0
        let (wide, narrow) = counterIndices(ofGroup: group)
        return Array(wide) + Array(narrow)
    }

    /// The places in `counters` of those that bind `group`.
    func counterIndices(ofGroup group: Int) -> (serviceWide: Range<Int>, perSubject: Range<Int>) {
        let start = serviceWide.count + (group - 1) * perSubject.count
        return (0..<serviceWide.count, group == 0 ? 0..<0 : start..<(start + perSubject.count))
    }

    mutating func append(_ request: LimitRequest) {
        requests.append(request)
        let group = group(of: request.subject)
        let waits = request.deadline != nil
        if let last = runs.last, last.cost == request.cost, last.group == group, last.waits == waits {
            runs[runs.count - 1].count += request.count
        } else {
            runs.append(Run(count: request.count, cost: request.cost, waits: waits, group: group))
        }
    }

    private mutating func group(of subject: String?) -> Int {
        guard let subject, !perSubject.isEmpty else { return 0 }
        if let known = groups[subject] { return known }
        subjects.append(subject)
        groups[subject] = subjects.count
        return subjects.count
    }

    private func counter(_ index: Int, subject: String?) -> Counter {
        let definition = definitions[index]
        return Counter(
            definition: index, subject: subject, limit: definition.limit, windowMilliseconds: definition.windowMilliseconds)
    }
}

/// How a batch was judged, by the script or by this sidecar's own counters.
public struct LimitVerdict: Equatable, Sendable {
    public struct Counter: Equatable, Sendable {
        /// What was counted before the batch.
        public var count: Int64
        /// Milliseconds until the window ends; for a window that the batch began, its length.
        public var ttl: Int64

        public init(count: Int64, ttl: Int64) {
            self.count = count
            self.ttl = ttl
        }
    }

    public struct Run: Equatable, Sendable {
        /// How many of the run's requests were granted: its first ones.
        public var granted: Int
        /// Which counter refused the rest; meaningless when nothing was refused.
        public var binding: Int

        public init(granted: Int, binding: Int) {
            self.granted = granted
            self.binding = binding
        }
    }

    /// Redis' time when it judged, in milliseconds of the Unix epoch; 0 when Redis did not.
    public var timeMilliseconds: Int64
    public var counters: [Counter]
    public var runs: [Run]

    public init(timeMilliseconds: Int64, counters: [Counter], runs: [Run]) {
        self.timeMilliseconds = timeMilliseconds
        self.counters = counters
        self.runs = runs
    }
}

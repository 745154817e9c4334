/// The number of waiting calls of each subject. A subject may use at most a quarter of the queue, which leaves room for
/// the other subjects.
struct SubjectTally: Sendable {
    /// The number by which the queue's capacity is divided to get the part that one subject may use.
    private static let divisor = 4

    private var counts: [ExactText: Int] = [:]

    /// Returns whether another call of the subject may wait in a queue of `capacity`. Does not limit calls without a
    /// subject.
    func hasCapacity(for subject: String?, of capacity: Int) -> Bool {
        guard let subject, let count = counts[ExactText(subject)] else { return true }
        return count < max(1, capacity / Self.divisor)
    }

    mutating func add(_ subject: String?) {
        if let subject { counts[ExactText(subject), default: 0] += 1 }
    }

    mutating func remove(_ subject: String?) {
        guard let subject = subject.map(ExactText.init), let count = counts[subject] else { return }
        counts[subject] = count > 1 ? count - 1 : nil
    }
}

public import InterlockJudge

extension CheckReport {
    /// The last line of every report: `0 violations in 1,234,567 operations`.
    public var verdict: String {
        "\(Figure.count(total)) violation\(total == 1 ? "" : "s") in \(Figure.count(operations)) operations"
    }

    /// No promise was seen broken.
    public var isClean: Bool { total == 0 }

    /// All violations that were found, those that are not told included.
    public var total: Int { max(violationCount, violations.count) }
}

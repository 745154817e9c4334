extension HistoryCheck {
    /// Checks a history that was written down, by the rules that stand in it: it says the same as when it was made.
    /// - Throws: `HistoryFileError`: the file is damaged, or cut off.
    public init(replaying path: String) throws(HistoryFileError) {
        var reader = try HistoryReader(path: path)
        self.init(rules: reader.rules)
        while let event = try reader.next() { observe(event) }
        if let end = reader.end { finish(at: end) }
    }
}

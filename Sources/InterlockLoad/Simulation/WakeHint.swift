/// What the scripts of locks publish on a wake channel; the real ones as JSON.
struct WakeHint: Hashable {
    enum What: String, Hashable {
        case turn, first, look
    }

    var what: What
    var ticket: String
    /// The lock's name.
    var lock: String

    init(_ what: What, ticket: String, lock: String) {
        self.what = what
        self.ticket = ticket
        self.lock = lock
    }

    init?(_ text: String) {
        let words = text.split(separator: " ", maxSplits: 2)
        guard words.count == 3, let what = What(rawValue: String(words[0])) else { return nil }
        self.init(what, ticket: String(words[1]), lock: String(words[2]))
    }

    /// Neither tickets nor names have spaces in them.
    var text: String { what.rawValue + " " + ticket + " " + lock }
}

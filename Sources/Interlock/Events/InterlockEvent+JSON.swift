internal import InterlockCore

extension LockEvent {
    /// Returns the message about a broken lock, in two parts. Redis inserts the time between them.
    static func broken(_ lock: String, by: String, origin: String, database: Int) -> (start: String, end: String) {
        let start =
            #"{"v":1,"type":"\#(Kind.broken.rawValue)","origin":\#(JSONText.quoted(origin)),"db":\#(database),"#
            + #""lock":\#(JSONText.quoted(lock)),"by":\#(JSONText.quoted(by)),"at_ms":"#
        return (start, "}")
    }
}

extension LimitEvent {
    /// Returns the event's JSON up to the value of `at_ms`, which is its last field.
    func json(origin: String, database: Int) -> String {
        var fields = [
            #""v":1"#, #""type":"\#(kind.rawValue)""#, #""origin":"# + JSONText.quoted(origin), #""db":\#(database)"#,
            #""service":"# + JSONText.quoted(service), #""limit":"# + JSONText.quoted(limitName),
        ]
        if let subject { fields.append(#""subject":"# + JSONText.quoted(subject)) }
        fields += [#""used":\#(used)"#, #""capacity":\#(limit)"#, #""at_ms":"#]
        return "{" + fields.joined(separator: ",")
    }
}

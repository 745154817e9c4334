package import InterlockCore

extension JSONPath {
    /// What stands at the path; `nil`: nothing does.
    package func value(in document: JSONValue) -> JSONValue? {
        var value = document
        for step in steps {
            switch (step, value) {
            case (.member(let name), .object(let members)):
                guard let member = members[name] else { return nil }
                value = member
            case (.element(let index), .list(let elements)):
                let index = index < 0 ? elements.count + index : index
                guard elements.indices.contains(index) else { return nil }
                value = elements[index]
            default: return nil
            }
        }
        return value
    }
}

extension JSONValue {
    /// Whether it is what somebody wrote as `text`: of a number, the value counts and not the spelling.
    func reads(as text: String) -> Bool {
        switch self {
        case .null: text == "null"
        case .flag(let flag): text == "\(flag)"
        case .integer(let integer): text == "\(integer)" || Double(text).flatMap(Int64.init(exactly:)) == integer
        case .number(let number): Double(text) == number
        case .text(let own): ExactText(own) == ExactText(text)
        case .list, .object: false
        }
    }
}

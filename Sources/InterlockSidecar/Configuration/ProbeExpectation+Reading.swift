import InterlockCore

extension ProbeExpectation {
    private static let longestText = 1000

    /// Reads `services.NAME.probe.expect`.
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("status", into: &statuses) { $0.statuses() }
            section.read("headers") { headers = Self.headers($0) }
            section.read("body") { value in
                if let text = value.parsed(by: Self.checkedText) { body.append(.contains(text)) }
            }
            section.read("body_matches") { value in
                if let expression = value.parsed(by: Self.checkedExpression) { body.append(.matches(expression)) }
            }
            section.read("json") { body += Self.members($0) }
        }
    }

    private static func headers(_ value: ConfigurationValue) -> [Header] {
        var headers: [Header] = []
        value.section { section in
            for entry in section.named() {
                guard isToken(entry.name) else {
                    entry.key.refuse("expected the name of a header")
                    continue
                }
                guard let text = entry.value.parsed(by: checkedText) else { continue }
                headers.append(Header(name: entry.name, value: text))
            }
        }
        return headers
    }

    /// A mapping from paths to the texts that stand there.
    private static func members(_ value: ConfigurationValue) -> [Body] {
        var members: [Body] = []
        value.section { section in
            for entry in section.named() {
                do throws(JSONPath.Violation) {
                    _ = try JSONPath(entry.name)
                } catch {
                    entry.key.refuse("expected a path such as $.status or $.checks[0]['disk']: \(error)")
                    continue
                }
                // What stands here without quotes is as good: true, 5, null.
                guard let text = entry.value.isNull ? "null" : entry.value.parsed(by: checkedMember) else { continue }
                members.append(.json(path: entry.name, equals: text))
            }
        }
        return members
    }

    private static func checkedMember(_ text: String) throws(ConfigurationExpectation) -> String {
        guard text.utf8.count <= longestText else { throw ConfigurationExpectation("a text of at most \(longestText) bytes") }
        return text
    }

    private static func checkedText(_ text: String) throws(ConfigurationExpectation) -> String {
        guard !text.isEmpty, text.utf8.count <= longestText else {
            throw ConfigurationExpectation("a text of 1-\(longestText) bytes")
        }
        return text
    }

    private static func checkedExpression(_ text: String) throws(ConfigurationExpectation) -> String {
        let text = try checkedText(text)
        do throws(RegularExpression.Violation) {
            return try RegularExpression(text).text
        } catch {
            throw ConfigurationExpectation("a regular expression that can be searched for in bounded time: \(error)")
        }
    }

    /// RFC 9110's rule of names.
    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= longestText
            && text.unicodeScalars.allSatisfy { scalar in
                switch scalar {
                case "a"..."z", "A"..."Z", "0"..."9": true
                default: "!#$%&'*+-.^_`|~".unicodeScalars.contains(scalar)
                }
            }
    }
}

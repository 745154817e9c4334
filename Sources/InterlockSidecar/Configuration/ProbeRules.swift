/// What `services.NAME.probe` has to look like. It is checked, so that a file stays valid when probes are carried out.
enum ProbeRules {
    private static let durations: ClosedRange<Duration> = .milliseconds(10) ... .seconds(86_400)
    private static let counts = 1...1000
    private static let statuses: ClosedRange<Int64> = 100...599

    static func check(_ value: ConfigurationValue) {
        value.section { section in
            section.read("path") { _ = $0.parsed(by: checkedPath) }
            section.read("every") { _ = $0.duration(in: durations) }
            section.read("timeout") { _ = $0.duration(in: durations) }
            section.read("unhealthy_after") { _ = $0.wholeNumber(in: counts) }
            section.read("healthy_after") { _ = $0.wholeNumber(in: counts) }
            section.read("expect") { expect in
                expect.section { section in
                    section.read("status") { _ = $0.parsed(by: checkedStatuses) }
                    section.read("body") { _ = $0.parsed(by: checkedBody) }
                }
            }
        }
    }

    private static func checkedPath(_ text: String) throws(ConfigurationExpectation) -> String {
        let isAcceptable = text.hasPrefix("/") && !text.unicodeScalars.contains(where: ConfigurationText.isSpaceOrControl)
        guard isAcceptable else { throw ConfigurationExpectation("a path that begins with / and has no spaces") }
        return text
    }

    private static func checkedBody(_ text: String) throws(ConfigurationExpectation) -> String {
        guard !text.isEmpty else { throw ConfigurationExpectation("a text that the body contains") }
        return text
    }

    private static func checkedStatuses(_ text: String) throws(ConfigurationExpectation) -> ClosedRange<Int64> {
        let expectation = ConfigurationExpectation("a status or a range of them, such as 200..399, within 100..599")
        let parts = text.split(separator: "..", omittingEmptySubsequences: false).map(ConfigurationText.wholeNumber)
        guard (1...2).contains(parts.count), let lower = parts.first ?? nil, let upper = parts.last ?? nil,
            lower <= upper, statuses.contains(lower), statuses.contains(upper)
        else { throw expectation }
        return lower...upper
    }
}

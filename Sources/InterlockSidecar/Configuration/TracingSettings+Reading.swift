import InterlockCore

extension TracingSettings {
    private static let shares: ClosedRange<Double> = 0...100

    /// `nil`, and reported, when it cannot be used.
    init?(reading value: ConfigurationValue) {
        var settings = TracingSettings(endpoint: "")
        value.section(shorthand: "endpoint") { section in
            let endpoint: String? = section.required("endpoint", "the collector's URL, such as http://127.0.0.1:4318") {
                $0.parsed(by: UpstreamSettings.checkedURL)
            }
            settings.endpoint = endpoint ?? ""
            section.read("sample", into: &settings.share) { $0.percentage(in: Self.shares) }
            section.read("follow_parents", into: &settings.followsParents) { $0.flag() }
        }
        guard !settings.endpoint.isEmpty else { return nil }
        self = settings
    }
}

/// How costs grow: one page of plots, and each of them as a file.
public struct GrowthReport: Hashable, Sendable, Codable {
    public var title: String
    /// What was measured, on which machine.
    public var summary: String
    public var series: [GrowthSeries]

    public init(title: String, summary: String = "", series: [GrowthSeries]) {
        self.title = title
        self.summary = summary
        self.series = series
    }

    /// A self-contained page.
    public var html: String {
        let figures = series.enumerated().map { HTMLPage.figure($1.plot, id: "plot\($0)") }
        let body: Markup = "<h1>\(title)</h1>\n<p>\(summary)</p>\n<div class=\"plots\">\n\(figures)</div>"
        return HTMLPage(title: title, body: body).text
    }

    /// A file name and an SVG for each plot. Names come from the titles: `latency-against-clients.svg`.
    public var drawings: [(file: String, svg: String)] {
        var taken: Set<String> = []
        return series.map { series in
            let name = Self.fileName(of: series.title)
            let free =
                sequence(first: 1) { $0 + 1 }.lazy.map { $0 == 1 ? name : "\(name)-\($0)" }.first { !taken.contains($0) } ?? name
            taken.insert(free)
            return (file: "\(free).svg", svg: series.svg)
        }
    }

    private static func fileName(of title: String) -> String {
        let words = title.lowercased().split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }
        return words.isEmpty ? "plot" : words.joined(separator: "-")
    }
}

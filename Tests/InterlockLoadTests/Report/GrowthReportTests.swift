import InterlockLoad
import Testing

@Suite("Growth report")
struct GrowthReportTests {
    private func report(titles: [String], points: [GrowthSeries.Point] = [.init(x: 1, y: 90), .init(x: 1000, y: 400)])
        -> GrowthReport
    {
        GrowthReport(
            title: "How costs grow", summary: "On 2 cores.",
            series: titles.map {
                GrowthSeries(
                    title: $0, xLabel: "clients", yLabel: "microseconds", isLogX: true, isLogY: true,
                    lines: [.init(name: "p50", points: points)])
            })
    }

    @Test("the page has a plot for each series, and its numbers")
    func page() {
        let page = report(titles: ["Latency", "Memory"]).html
        #expect(page.split(separator: "<figure>").count == 3)
        #expect(page.contains("<tr><th scope=\"row\" class=\"word\">1,000</th><td>400</td></tr>"))
        #expect(!page.contains("<script"))
    }

    @Test("each drawing is a file named after its title, and no two have the same name")
    func fileNames() {
        let names = report(titles: ["Latency, by clients (µs)", "Latency by clients s", "!", "Latency by clients s"]).drawings
            .map(\.file)
        #expect(names == ["latency-by-clients-s.svg", "latency-by-clients-s-2.svg", "plot.svg", "latency-by-clients-s-3.svg"])
    }

    @Test("a drawing of its own is on white, with its title, and without scripts")
    func standalone() throws {
        let svg = try #require(report(titles: ["A < B"]).drawings.first).svg
        #expect(svg.hasPrefix("<svg xmlns=\"http://www.w3.org/2000/svg\""))
        #expect(svg.contains("<rect class=\"paper\""))
        #expect(svg.contains(">A &lt; B</text>"))
        #expect(!svg.contains("<script"))
        #expect(!svg.contains("prefers-color-scheme"), "an image in a page is white whatever the reader prefers")
    }

    @Test("nothing measured is nothing to show")
    func empty() {
        #expect(report(titles: ["Latency"], points: [.init(x: 0, y: 0), .init(x: .nan, y: 1)]).html.contains("nothing to show"))
    }
}

/// A plot: its frame and the contents.
protocol Plot {
    var frame: PlotFrame { get }
    /// Whether the plot has no contents to draw.
    var isEmpty: Bool { get }
    /// The contents of the frame.
    var drawing: Markup { get }
    /// The same data as a table, for readers who cannot see the drawing.
    var numbers: PlotNumbers { get }
}

extension Plot {
    /// Returns the plot as one `svg` element without scripts and external resources. The page must include the style
    /// sheet.
    /// - Parameter id: a prefix of element IDs that is unique in the page.
    func svg(id: String) -> Markup {
        let content = isEmpty ? frame.emptyNotice : drawing
        return """
            <svg class="plot" viewBox="0 0 \(PlotFrame.width) \(frame.height)" role="img" \
            aria-labelledby="\(id)-title \(id)-summary"><title id="\(id)-title">\(frame.title)</title>\
            <desc id="\(id)-summary">\(frame.summary)</desc>\(frame.legendRow)\(frame.background)\(content)</svg>
            """
    }
}

/// The style sheet of all plots. Drawings use only class names, so the same drawing works in light and dark mode.
enum PlotStyle {
    /// The rules of the style sheet, with colors for light and dark mode.
    static let page: Markup = "\(shapes)\(colors(light))@media (prefers-color-scheme: dark){\(colors(dark))}"

    private struct Palette {
        let text: String
        let faint: String
        let grid: String
        let band: String
        let alarm: String
        let reference: String
        /// The colors of `PlotTone.series`. They also differ in lightness, for color-blind readers.
        let series: [String]
    }

    private static let light = Palette(
        text: "#1f2328", faint: "#59636e", grid: "#d8dee4", band: "#e8a33d", alarm: "#cf222e", reference: "#6e7781",
        series: ["#0b62c4", "#d9730d", "#1a7f4b", "#8250df", "#9a6700", "#c2408f", "#0e8a9b", "#57606a"])

    private static let dark = Palette(
        text: "#e6edf3", faint: "#9aa4ae", grid: "#30363d", band: "#b5802e", alarm: "#ff6b66", reference: "#8b949e",
        series: ["#5aa9ff", "#f0a050", "#4cc483", "#b794f6", "#d4b04a", "#f083c2", "#4fc7d6", "#b1bac4"])

    private static let shapes: Markup = """
        .plot text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}\
        .plot .label{font-size:11px}.plot .bandname{font-size:10px}\
        .plot .empty{font-size:14px;text-anchor:middle}\
        .plot .line{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}.plot .dashed{stroke-dasharray:5 4}\
        .plot .axis,.plot .grid{fill:none;stroke-width:1}.plot .band{fill-opacity:.22}
        """

    private static func colors(_ palette: Palette) -> Markup {
        var sheet: Markup = """
            .plot text{fill:\(palette.text)}.plot .label,.plot .bandname,.plot .empty{fill:\(palette.faint)}\
            .plot .grid{stroke:\(palette.grid)}.plot .axis{stroke:\(palette.faint)}.plot .band{fill:\(palette.band)}
            """
        let tones =
            palette.series.indices.map { (PlotTone.series($0), palette.series[$0]) }
            + [(.alarm, palette.alarm), (.reference, palette.reference)]
        for (tone, color) in tones {
            sheet += ".plot .line.\(tone.styleName){stroke:\(color)}.plot .area.\(tone.styleName){fill:\(color)}"
        }
        return sheet
    }
}

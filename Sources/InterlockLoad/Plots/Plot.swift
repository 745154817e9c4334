/// Something that can be drawn: its frame, and what stands in it.
protocol Plot {
    var frame: PlotFrame { get }
    /// There is nothing to draw but the frame.
    var isEmpty: Bool { get }
    /// What stands within the frame.
    var drawing: Markup { get }
    /// The same in numbers, for readers who cannot see the drawing.
    var numbers: PlotNumbers { get }
}

extension Plot {
    /// One `svg` element, without scripts and without anything from elsewhere; `id` is unique in its page, which has the style
    /// sheet.
    func svg(id: String) -> Markup {
        let content = isEmpty ? frame.emptiness : drawing
        return """
            <svg class="plot" viewBox="0 0 \(PlotFrame.width) \(frame.height)" role="img" \
            aria-labelledby="\(id)-title \(id)-summary"><title id="\(id)-title">\(frame.title)</title>\
            <desc id="\(id)-summary">\(frame.summary)</desc>\(frame.legendRow)\(frame.background)\(content)</svg>
            """
    }
}

/// The style sheet of all plots. A drawing names classes only, so that the same one is light and dark.
enum PlotStyle {
    /// Light, or dark where the reader prefers that.
    static let page: Markup = "\(shapes)\(colours(light))@media (prefers-color-scheme: dark){\(colours(dark))}"

    private struct Palette {
        let text: String
        let faint: String
        let grid: String
        let band: String
        let alarm: String
        let reference: String
        /// `PlotTone.count` colours that are told apart also by those who confuse red and green: they differ in lightness too.
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

    private static func colours(_ palette: Palette) -> Markup {
        var sheet: Markup = """
            .plot text{fill:\(palette.text)}.plot .label,.plot .bandname,.plot .empty{fill:\(palette.faint)}\
            .plot .grid{stroke:\(palette.grid)}.plot .axis{stroke:\(palette.faint)}.plot .band{fill:\(palette.band)}
            """
        let tones =
            palette.series.indices.map { (PlotTone.series($0), palette.series[$0]) }
            + [(.alarm, palette.alarm), (.reference, palette.reference)]
        for (tone, colour) in tones {
            sheet += ".plot .line.\(tone.styleName){stroke:\(colour)}.plot .area.\(tone.styleName){fill:\(colour)}"
        }
        return sheet
    }
}

/// Something that can be drawn: its frame, and what stands in it.
protocol Plot {
    var frame: PlotFrame { get }
    /// There is nothing to draw but the frame.
    var isEmpty: Bool { get }
    /// What stands within the frame.
    var drawing: Markup { get }
    /// The same in numbers, for whoever cannot see the drawing.
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

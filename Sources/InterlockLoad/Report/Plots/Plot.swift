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

/// Where a drawing stands.
enum PlotPlace: Hashable, Sendable {
    /// In a page that has the style sheet; `id` is unique in it.
    case page(id: String)
    /// In a file of its own: on white, with its title and its style sheet.
    case alone
}

extension Plot {
    /// One `svg` element, without scripts and without anything from elsewhere.
    func svg(_ place: PlotPlace) -> Markup {
        let size: Markup = "viewBox=\"0 0 \(PlotFrame.width) \(frame.height(place))\""
        let content = isEmpty ? frame.emptiness : drawing
        let id: Markup
        var head: Markup
        switch place {
        case .page(let name):
            id = "\(name)"
            head = "<svg class=\"plot\" \(size) role=\"img\" aria-labelledby=\"\(id)-title \(id)-summary\">"
        case .alone:
            id = "plot"
            head = """
                <svg xmlns="http://www.w3.org/2000/svg" class="plot" \(size) width="\(PlotFrame.width)" \
                height="\(frame.height(place))" role="img" aria-labelledby="\(id)-title \(id)-summary">\
                <style>\(PlotStyle.alone)</style>\
                <rect class="paper" width="\(PlotFrame.width)" height="\(frame.height(place))"/>
                """
        }
        head += "<title id=\"\(id)-title\">\(frame.title)</title><desc id=\"\(id)-summary\">\(frame.summary)</desc>"
        if place == .alone { head += "<text class=\"title\" x=\"4\" y=\"20\">\(frame.title)</text>" }
        return
            "\(head)<g transform=\"translate(0 \(frame.headroom(place)))\">\(frame.legendRow)\(frame.background)\(content)</g></svg>"
    }
}

import ArgumentParser

/// How a command prints its answer.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON, one line for each answer.")
    var json = false
}

internal import ArgumentParser

/// How a command prints its answer.
package struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON, one line for each answer.")
    package var json = false

    package init() {}
}

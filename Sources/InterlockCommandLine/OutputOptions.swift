internal import ArgumentParser

/// The options for the output format of a command.
package struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON, one line for each answer.")
    package var json = false

    package init() {}
}

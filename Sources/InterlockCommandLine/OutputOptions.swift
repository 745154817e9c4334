internal import ArgumentParser

/// The options for the output format of a command.
package struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON, one line per answer.")
    package var json = false

    package init() {}
}

/// An invalid definition. The description names the definition, the value expected and the value found.
package struct DefinitionError: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// A definition that no coordinator can work with. Says which it is, what was expected and what was there instead.
package struct DefinitionError: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// A configured service; see `LoopBoundCoordinator.service`.
package struct ServiceReference: Equatable {
    let service: GuardedService

    package static func == (left: ServiceReference, right: ServiceReference) -> Bool { left.service === right.service }
}

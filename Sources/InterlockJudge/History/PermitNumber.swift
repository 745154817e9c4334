/// The number of a permit in a run. Each permit has its own.
package typealias PermitNumber = Int64

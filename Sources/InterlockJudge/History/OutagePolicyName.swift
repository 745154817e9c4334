/// The values of `when_redis_is_down` as the configuration spells them.
package enum OutagePolicyName: String, Hashable, Sendable, Codable {
    case local, allow, deny
}

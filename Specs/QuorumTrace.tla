-------------------------------------------------- MODULE QuorumTrace --------------------------------------------------
\* Checks recorded calls of the scripts of a quorum lock: each must match the operator that Quorum.tla uses for it.
\* traces/quorums.py generates the module Steps. The state also has kept: the time for which the number lasts.
EXTENDS QuorumScripts, Sequences, TLC, Steps
Result(s) ==
  CASE s.script = "quorum-acquire" ->
         AcquireScript(s.before, s.token, s.ttl, s.candidate, Minted(s.before.num, s.clock))
    [] s.script = "quorum-fence" -> FenceScript(s.before, s.token, s.fence, s.ttl, s.found)
    [] s.script = "quorum-release" -> ReleaseScript(s.before, s.token, s.only)
    [] s.script = "quorum-renew" -> RenewScript(s.before, s.token, s.ttl, s.fence)
    [] s.script = "quorum-break" -> BreakScript(s.before, s.token)
    [] s.script = "quorum-inspect" -> InspectScript(s.before)
\* A number lasts as long as a lease that relies on it, and until the server's clock has reached it. So a number that is
\* minted after the last one has expired is still higher. `ahead`: by how much the stored number exceeds the clock.
Lasts(s) == s.after.kept >= Max(s.ttl, s.ahead)
Kept(s, reply) ==
  LET same == s.after.kept = s.before.kept
  IN CASE s.script = "quorum-acquire" /\ reply[1] # "held" /\ (reply[1] = "granted" \/ s.before.num = 0) -> Lasts(s)
       [] s.script = "quorum-fence" /\ reply > 0 -> Lasts(s)
       [] s.script = "quorum-renew" /\ reply[1] = "renewed" /\ s.before.num > 0 ->
              Lasts(s) /\ s.after.kept >= s.before.kept
       [] OTHER -> same
\* A call that Redis refused changes nothing. An unexpected step has an error or a reply that no script gives. Traces by
\* MONITOR have no replies.
Legal(s) == IF "unexpected" \in DOMAIN s THEN FALSE
            ELSE IF "error" \in DOMAIN s THEN s.after = s.before
            ELSE LET r == Result(s) IN /\ s.after = [r[1] EXCEPT !.kept = s.after.kept]
                                       /\ Kept(s, r[2])
                                       /\ "reply" \in DOMAIN s => s.reply = r[2]
ASSUME PrintT(<<"illegal", {i \in 1..Len(Steps) : ~Legal(Steps[i])}>>)
=======================================================================================================================

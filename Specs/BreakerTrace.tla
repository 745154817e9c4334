---- MODULE BreakerTrace ----
\* Checks recorded calls of the breaker's scripts with the operators that the actions of the module Breaker use. The
\* generated module Steps lists the steps: [script, c: the call, before, after: the keys, reply or failed]. A missing
\* field has its default, or in after the value that it has in before. Times are in ms, generations in microseconds.
EXTENDS BreakerWindow, Steps, TLC
Fill(default, given) == [f \in DOMAIN default |-> IF f \in DOMAIN given THEN given[f] ELSE default[f]]
Has(s, field) == field \in DOMAIN s
\* The keys as a step shows them: in trials <<name, left>>, in votes <<cause, sidecar, left>>.
NoShown == [h |-> NoHash, ok |-> 0, digest |-> "", window |-> NoWindow, old |-> FALSE, trials |-> {}, votes |-> {}]
Shown(default, s, field) == IF ~Has(s, field) THEN default
  ELSE LET k == s[field] IN [Fill(default, k) EXCEPT !.h = IF Has(k, "h") THEN Fill(default.h, k.h) ELSE default.h]
Left(set, name) == LET found == {p \in set : p[1] = name} IN IF found = {} THEN 0 ELSE (CHOOSE p \in found : TRUE)[2]
Named(votes) == {<<<<v[1], v[2]>>, v[3]>> : v \in votes}
Keys(k, permits, voters) == [k EXCEPT !.trials = [i \in permits |-> Left(k.trials, i)],
                                      !.votes = [v \in voters |-> Left(Named(k.votes), v)]]
Base == [f \in DOMAIN NoCall \cup DOMAIN NoReport |-> IF f \in DOMAIN NoCall THEN NoCall[f] ELSE NoReport[f]]
TheCall(s) == LET c == Fill(Base, s.c) IN
  [c EXCEPT !.known = Fill(NoHash, c.known), !.shown = Fill(NoCall.shown, c.shown)]
Slack == 100
Run(script, r, c) == CASE script = "breaker-sync" -> SyncScript(r, c)
  [] script = "breaker-report" -> LET n == Counted(r, c) IN ReportScript(r, c, n, Trips(n, c))
  [] script = "breaker-vote" -> VoteScript(r, c)
  [] script = "breaker-trip" -> TripScript(r, c)
  [] script = "breaker-half-open" -> HalfOpenScript(r, c)
  [] script = "breaker-trial" -> TrialScript(r, c)
  [] script = "breaker-outcome" -> OutcomeScript(r, c)
  [] script = "breaker-close" -> CloseScript(r, c)
  [] script = "breaker-down" -> DownScript(r, c)
  [] script = "breaker-up" -> UpScript(r, c)
  [] script = "breaker-force" -> ForceScript(r, c)
LegalCall(s) ==
  LET first == Shown(NoShown, s, "before")  last == Shown(first, s, "after")  c == TheCall(s)
      permits == {p[1] : p \in first.trials \cup last.trials} \cup {c.id}
      voters == {v[1] : v \in Named(first.votes \cup last.votes)} \cup {"outage", c.cause} \X {c.origin}
      before == Keys(first, permits, voters)  after == Keys(last, permits, voters)  x == Run(s.script, before, c)
      \* A call that Redis refuses, such as for lack of memory, changes nothing. Without replies, refusals do not show.
      failed == after = before /\ ~Has(s, "reply")
      \* Before Redis 7.2, the clock advances during a script, so an expiry that it sets may be later.
      seen == [after EXCEPT !.window.left = If(@ - x.r.window.left \in 0..Slack, x.r.window.left, @)]
  IN IF Has(s, "failed") THEN failed
     ELSE failed \/ (x.r = seen /\ (Has(s, "reply") => s.reply = [result |-> x.result, at |-> 0, shows_hash |-> TRUE]))
Legal(s) == ~Has(s, "unexpected") /\ LegalCall(s)   \* unexpected: an error or a reply that no script gives
ASSUME PrintT(<<"illegal", {i \in 1..Len(Steps) : ~Legal(Steps[i])}>>)
====

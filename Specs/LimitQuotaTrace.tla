------------------------------------------- MODULE LimitQuotaTrace -------------------------------------------
\* Checks recorded calls of quota.lua. traces/quotas.py translates them. Times are in ms; 0 is any time that has passed.
\* A step has a part for each bucket: the data plane p, its demand, the limit, the entries before and after, and the
\* remaining time of the bucket's key before and after.
EXTENDS LimitQuotaScripts, TLC, Steps

LegalPart(s, i) ==
  LET part == s.parts[i]
      assign == QuotaScript(part.before, part.p, part.need, part.limit, s.retention, s.most)
      seen == [r \in DOMAIN part.before |-> See(part.before[r], s.retention)]
  IN /\ part.after = assign[1]
     /\ part.left[2] = IF Full(seen, part.p, s.most) THEN part.left[1] ELSE s.retention
     /\ "reply" \in DOMAIN s => s.reply[i] = assign[2]
\* Without memory, or on a replica, Redis rejects a script's first write. After the first write, all others succeed.
\* An unexpected step has an error or a reply that no script gives.
Legal(s) == IF "unexpected" \in DOMAIN s THEN FALSE ELSE
  IF s.script = "failed" THEN s.after = s.before ELSE
  /\ "reply" \in DOMAIN s => Len(s.reply) = Len(s.parts)
  /\ \A i \in DOMAIN s.parts : LegalPart(s, i)
ASSUME PrintT(<<"illegal", {i \in 1..Len(Steps) : ~Legal(Steps[i])}>>)
==============================================================================================================
